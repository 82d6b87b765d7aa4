package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/pawlhq/pawl/internal/testenv"
)

// cronJob is what this test looks at in a CronJob.
type cronJob struct {
	Spec struct {
		ConcurrencyPolicy string `json:"concurrencyPolicy"`
		JobTemplate       struct {
			Spec struct {
				PodFailurePolicy struct {
					Rules []struct {
						Action      string `json:"action"`
						OnExitCodes *struct {
							ContainerName string `json:"containerName"`
							Operator      string `json:"operator"`
							Values        []int  `json:"values"`
						} `json:"onExitCodes"`
						OnPodConditions []struct{ Type, Status string } `json:"onPodConditions"`
					} `json:"rules"`
				} `json:"podFailurePolicy"`
				Template struct {
					Spec struct {
						RestartPolicy                 string `json:"restartPolicy"`
						TerminationGracePeriodSeconds int    `json:"terminationGracePeriodSeconds"`
						Containers                    []struct {
							Name    string   `json:"name"`
							Command []string `json:"command"`
							Env     []struct {
								Name, Value string
								ValueFrom   struct {
									FieldRef struct{ FieldPath string } `json:"fieldRef"`
								} `json:"valueFrom"`
							} `json:"env"`
							VolumeMounts []struct{ Name, MountPath string } `json:"volumeMounts"`
						} `json:"containers"`
						Volumes []struct {
							Name   string `json:"name"`
							Secret *struct {
								Items []struct{ Path string } `json:"items"`
							} `json:"secret"`
						} `json:"volumes"`
					} `json:"spec"`
				} `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

// readCronJob reads a manifest and checks it as the API server does: by the schema, which knows every field, and by the rules of a
// podFailurePolicy, which the schema doesn't hold.
func readCronJob(manifest string) (job cronJob, err error) {
	var document any
	if err := yaml.Unmarshal([]byte(manifest), &document); err != nil {
		return job, err
	}
	text, err := json.Marshal(document)
	if err != nil {
		return job, err
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return job, err
	}
	schema, err := jsonschema.NewCompiler().Compile("testdata/kubernetes/cronjob.schema.json")
	if err != nil {
		return job, err
	}
	if err := schema.Validate(instance); err != nil {
		return job, err
	}
	if err := json.Unmarshal(text, &job); err != nil {
		return job, err
	}
	return job, job.check()
}

func (job cronJob) check() error {
	spec := job.Spec.JobTemplate.Spec
	if !slices.Contains([]string{"Allow", "Forbid", "Replace"}, job.Spec.ConcurrencyPolicy) {
		return fmt.Errorf("concurrencyPolicy is %q", job.Spec.ConcurrencyPolicy)
	}
	if spec.Template.Spec.RestartPolicy != "Never" {
		return errors.New("podFailurePolicy needs restartPolicy: Never")
	}
	for i, rule := range spec.PodFailurePolicy.Rules {
		if !slices.Contains([]string{"FailJob", "Ignore", "Count"}, rule.Action) {
			return fmt.Errorf("rule %d: action is %q", i, rule.Action)
		}
		if (rule.OnExitCodes == nil) == (len(rule.OnPodConditions) == 0) {
			return fmt.Errorf("rule %d needs either onExitCodes or onPodConditions", i)
		}
		for _, condition := range rule.OnPodConditions {
			if condition.Type == "" || condition.Status != "True" {
				return fmt.Errorf("rule %d: the condition is %+v", i, condition)
			}
		}
		codes := rule.OnExitCodes
		if codes == nil {
			continue
		}
		if codes.Operator != "In" && codes.Operator != "NotIn" {
			return fmt.Errorf("rule %d: operator is %q", i, codes.Operator)
		}
		if len(codes.Values) == 0 || !slices.IsSorted(codes.Values) || len(slices.Compact(slices.Clone(codes.Values))) < len(codes.Values) {
			return fmt.Errorf("rule %d: the values %v must be in order, each once", i, codes.Values)
		}
		if codes.Operator == "In" && slices.Contains(codes.Values, 0) {
			return fmt.Errorf("rule %d: 0 is no failure", i)
		}
		named := codes.ContainerName == ""
		for _, container := range spec.Template.Spec.Containers {
			named = named || container.Name == codes.ContainerName
		}
		if !named {
			return fmt.Errorf("rule %d: there is no container %q", i, codes.ContainerName)
		}
	}
	return nil
}

// action is what becomes of a job whose container exited with code, as the first rule that fits says.
func (job cronJob) action(code int) string {
	for _, rule := range job.Spec.JobTemplate.Spec.PodFailurePolicy.Rules {
		if codes := rule.OnExitCodes; codes != nil && slices.Contains(codes.Values, code) == (codes.Operator == "In") {
			return rule.Action
		}
	}
	return "Count"
}

func manifest(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../examples/kubernetes/cronjob.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The manifest is one that Kubernetes takes, and maps each of Pawl's exit codes to what should become of the job.
func TestKubernetesCronJob(t *testing.T) {
	t.Parallel()
	text := manifest(t)
	job, err := readCronJob(text)
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[int]string{
		1: "Count", 64: "FailJob", 66: "Count", 69: "Count", 74: "Count", 75: "Ignore", 77: "FailJob", 78: "FailJob",
		80: "FailJob", 81: "Count", 82: "FailJob", 126: "FailJob", 127: "FailJob", 137: "Count", 143: "Count",
	} {
		if got := job.action(code); got != want {
			t.Errorf("exit code %d: the action is %s, want %s", code, got, want)
		}
	}
	if !strings.Contains(text, "type: DisruptionTarget") {
		t.Error("an evicted pod counts")
	}
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	for _, arg := range pod.Containers[0].Command {
		if after, found := strings.CutPrefix(arg, "--kill-after="); found {
			wait, err := time.ParseDuration(after)
			if err != nil || wait >= time.Duration(pod.TerminationGracePeriodSeconds)*time.Second {
				t.Errorf("the pod has %d s to end, and its command %s, %v", pod.TerminationGracePeriodSeconds, after, err)
			}
		}
	}
}

// A manifest that Kubernetes would refuse, or that wouldn't do what it says, is refused by the check above.
func TestKubernetesMistakes(t *testing.T) {
	t.Parallel()
	text := manifest(t)
	for right, wrong := range map[string]string{
		"podFailurePolicy:":         "podFailurePolice:",
		"onExitCodes:":              "onExitCode:",
		"apiVersion: batch/v1":      "apiVersion: 1",
		"backoffLimit: 4":           `backoffLimit: "4"`,
		"operator: In":              "operator: in",
		"containerName: report":     "containerName: main",
		"action: FailJob":           "action: Fail",
		"restartPolicy: Never":      "restartPolicy: OnFailure",
		"concurrencyPolicy: Forbid": "concurrencyPolicy: Never",
		"values: [75]":              "values: [75, 0]",
		"values: [64,":              "values: [80, 64,",
		`status: "True"`:            "status: true",
		"memory: 512Mi":             "memory: [512]",
		"secretName:":               "secret_name:",
	} {
		if !strings.Contains(text, right) {
			t.Errorf("the manifest has no %q", right)
		} else if _, err := readCronJob(strings.Replace(text, right, wrong, 1)); err == nil {
			t.Errorf("with %q it is taken", wrong)
		}
	}
}

// The container's command is run as it stands, with its environment: pawl takes every flag, and the pod is the holder. The README
// shows the same command.
func TestKubernetesCommand(t *testing.T) {
	t.Parallel()
	job, err := readCronJob(manifest(t))
	if err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	container := pod.Containers[0]
	readme, err := os.ReadFile("../../examples/kubernetes/README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.NewReplacer("pawl run", "bin/pawl run", " report.sh", " examples/kubernetes/report.sh").Replace(strings.Join(container.Command, " "))
	if !strings.Contains(string(readme), "\n"+shown+"\n") {
		t.Errorf("the README doesn't show %q", shown)
	}

	// The image, for this test: pawl and report.sh in PATH, and the volumes at other places.
	image := checkout(t)
	path := fmt.Sprintf("PATH=%s/bin:%s/examples/kubernetes:%s", image, image, os.Getenv("PATH"))
	s := serve(t, testenv.Postgres(t), directory(t))
	environment := []string{path}
	for _, variable := range container.Env {
		value := variable.Value
		for _, mount := range container.VolumeMounts {
			if rest, found := strings.CutPrefix(value, mount.MountPath); found {
				place := filepath.Join(image, mount.Name)
				if err := os.Mkdir(place, 0o700); err != nil {
					t.Fatal(err)
				}
				value = place + rest
			}
		}
		switch {
		case variable.Name == "PAWL_URL":
			value = s.url
		case variable.Name == "PAWL_CREDENTIAL_FILE":
			if err := os.WriteFile(value, []byte("secret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		case variable.ValueFrom.FieldRef.FieldPath == "metadata.name":
			value = "nightly-report-29389230-x7k2p"
		}
		environment = append(environment, variable.Name+"="+value)
	}
	args := []string{"-c", `exec "$@"`, "sh"} // finds pawl in the image's PATH
	p := start(t, environment, "/bin/sh", append(args, container.Command...)...)
	if code := p.exit(); code != 0 {
		t.Fatalf("the container exits %d", code)
	}
	if body := s.read("reports/nightly"); body != "holder,token\nnightly-report-29389230-x7k2p,1\n" {
		t.Errorf("the report is %q", body)
	}
	for _, volume := range pod.Volumes {
		if volume.Secret != nil && (len(volume.Secret.Items) != 1 || volume.Secret.Items[0].Path != "credential") {
			t.Errorf("the secret is %+v", volume.Secret)
		}
	}
}
