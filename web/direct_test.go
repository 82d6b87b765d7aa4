package web_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/publish"
	"github.com/pawlhq/pawl/web"
)

// begin begins a direct upload of content.
func (w worker) begin(path, content string) answer {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"path": path, "size": len(content), "sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(content))), "content_type": "image/png"})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.call("POST", w.generation()+"/uploads", string(body), "Pawl-Lease", w.lease)
}

// deliver hands bytes to the store, as the client's own request to it would.
func (w worker) deliver(signed map[string]any, data string) {
	w.t.Helper()
	text, err := json.Marshal(signed)
	if err != nil {
		w.t.Fatal(err)
	}
	var request publish.SignedRequest
	if err := json.Unmarshal(text, &request); err != nil {
		w.t.Fatal(err)
	}
	if err := w.blobs.Deliver(request, []byte(data)); err != nil {
		w.t.Fatal(err)
	}
}

// TestDirectUpload: a single request, then parts that are asked for one by one; both are files like any other afterwards.
func TestDirectUpload(t *testing.T) {
	t.Parallel()
	w := newRig(t, web.Options{}).grant("dir/k")
	begun := w.begin("a b.png", "8 bytes!").want(201)
	id, _ := begun.json()["upload_id"].(string)
	if where := begun.header.Get("Location"); where != w.generation()+"/uploads/"+id {
		t.Errorf("Location %q", where)
	}
	w.deliver(begun.json()["put"].(map[string]any), "8 bytes!")
	done := w.call("POST", w.generation()+"/uploads/"+id+"/complete", "", "Pawl-Lease", w.lease).want(201)
	if where := done.header.Get("Location"); where != w.generation()+"/files/a%20b.png" || done.json()["content_type"] != "image/png" {
		t.Errorf("Location %q of %s", where, done.body)
	}
	w.call("POST", w.generation()+"/uploads/"+id+"/complete", "", "Pawl-Lease", w.lease).want(200)
	if again := w.begin("a b.png", "8 bytes!").want(200).json(); again["identical"] != true || again["upload_id"] != nil {
		t.Errorf("begun again: %v", again)
	}

	content := "a content of several parts"
	begun = w.begin("big.bin", content).want(201)
	members := begun.json()
	if members["parts"] != 4.0 || members["part_size"] != 8.0 || members["put"] != nil || begun.body == "" {
		t.Fatalf("begun as %s", begun.body)
	}
	id, _ = members["upload_id"].(string)
	for _, number := range []int{4, 1, 3} {
		w.part(id, number, content)
	}
	refused := w.call("POST", w.generation()+"/uploads/"+id+"/complete", "", "Pawl-Lease", w.lease).wantProblem(publish.ErrLengthMismatch)
	if refused["promised"] != "26" || refused["came"] != "18" {
		t.Errorf("refused with %v", refused)
	}
	if uploaded := fmt.Sprint(w.begin("big.bin", content).want(201).json()["uploaded"]); uploaded != "[1 3 4]" {
		t.Errorf("uploaded %s", uploaded)
	}
	w.part(id, 2, content)
	w.call("POST", w.generation()+"/uploads/"+id+"/complete", "{}", "Pawl-Lease", w.lease).want(201)
	w.publish("").want(200)
	if got := w.call("GET", w.generation()+"/files/big.bin", "").want(200); got.body != content {
		t.Errorf("read %q", got.body)
	}
}

// part has a part signed and delivers it.
func (w worker) part(id string, number int, content string) {
	w.t.Helper()
	got := w.call("POST", w.generation()+"/uploads/"+id+"/parts", fmt.Sprintf(`{"part_numbers":[%d]}`, number), "Pawl-Lease", w.lease).want(200)
	signed := got.json()["parts"].([]any)[0].(map[string]any)
	if signed["part_number"] != float64(number) {
		w.t.Fatalf("signed %v", signed)
	}
	start := (number - 1) * 8
	w.deliver(signed, content[start:min(len(content), start+8)])
}

// TestDirectUploadRefused: bad requests name the field, and no secret shows.
func TestDirectUploadRefused(t *testing.T) {
	t.Parallel()
	w := newRig(t, web.Options{}).grant("k")
	sum := strings.Repeat("ab", 32)
	for body, pointer := range map[string]string{
		`{}`: "/path",
		`{"path":"../f","size":4,"sha256":"` + sum + `"}`:                             "/path",
		`{"path":"f","sha256":"` + sum + `"}`:                                         "/size",
		`{"path":"f","size":-1,"sha256":"` + sum + `"}`:                               "/size",
		`{"path":"f","size":1.5,"sha256":"` + sum + `"}`:                              "/size",
		`{"path":"f","size":4}`:                                                       "/sha256",
		`{"path":"f","size":4,"sha256":"abc"}`:                                        "/sha256",
		`{"path":"f","size":4,"sha256":"` + sum + `","crc64nvme":"12"}`:               "/crc64nvme",
		`{"path":"f","size":4,"sha256":"` + sum + `","crc64nvme":"zzzzzzzzzzzzzzzz"}`: "/crc64nvme",
		`{"path":"f","size":4,"sha256":"` + sum + `","md5":"x"}`:                      "/md5",
		`{"path":"f","size":4,"sha256":"` + sum + `","content_type":7}`:               "/content_type",
	} {
		got := w.call("POST", w.generation()+"/uploads", body, "Pawl-Lease", w.lease)
		if got.status != 400 || !strings.Contains(got.body, `"pointer":"`+pointer+`"`) {
			t.Errorf("%s: %d %s; want the pointer %s", body, got.status, got.body, pointer)
		}
	}
	id, _ := w.begin("f", "a content of several parts").want(201).json()["upload_id"].(string)
	for _, bad := range []string{"x", strings.Repeat("0", 32), strings.Repeat("g", 32) + ".x", strings.Repeat("0", 32) + ".%00", "%2e%2e"} {
		w.call("POST", w.generation()+"/uploads/"+bad+"/complete", "", "Pawl-Lease", w.lease).wantProblem(publish.ErrInvalidRequest)
		w.call("DELETE", w.generation()+"/uploads/"+bad, "", "Pawl-Lease", w.lease).wantProblem(publish.ErrInvalidRequest)
	}
	w.call("POST", w.generation()+"/uploads/"+strings.Repeat("0", 32)+".x/complete", "", "Pawl-Lease", w.lease).wantProblem(publish.ErrNotFound)
	for _, body := range []string{
		``, `{"part_numbers":[]}`, `{"part_numbers":["1"]}`, `{"part_numbers":[0]}`, `{"part_numbers":[99]}`, `{"part_numbers":1}`,
		`{"part_numbers":[1],"crc64nvme":["12"]}`, `{"part_numbers":[1],"crc64nvme":["0000000000000000","0000000000000000"]}`,
	} {
		w.call("POST", w.generation()+"/uploads/"+id+"/parts", body, "Pawl-Lease", w.lease).wantProblem(publish.ErrInvalidRequest)
	}
	w.call("DELETE", w.generation()+"/uploads/"+id, "", "Pawl-Lease", w.lease).want(204)
	w.call("POST", w.generation()+"/uploads/"+id+"/complete", "", "Pawl-Lease", w.lease).wantProblem(publish.ErrGenerationIncomplete)
	if strings.Contains(w.log.String(), w.lease) {
		t.Error("the lease id shows in the log")
	}
}
