package web

import (
	"net/http"

	"github.com/pawlhq/pawl/publish"
)

// leaseUser is the user name under which Basic authentication carries a lease id, for programs that can't send Pawl-Lease.
const leaseUser = "lease"

// challenge asks for that. Some programs, ffmpeg among them, send what they have only when they are asked.
const challenge = `Basic realm="pawl", charset="UTF-8"`

// fileGrant is grant for the files of a generation, where Basic authentication is an alternative to Pawl-Lease.
func (c *call) fileGrant() (publish.Grant, error) {
	id, err := fileLeaseID(c.Request())
	if err != nil {
		return publish.Grant{}, err
	}
	if id.IsZero() {
		return publish.Grant{}, unauthorized()
	}
	return publish.Grant{Key: c.key, Token: c.token, LeaseID: id}, nil
}

// fileLeaseID reads the lease id of a request for a file: of Pawl-Lease, of Basic authentication, or of both when they say
// the same. It may be absent. Other users and other schemes are not for Pawl to judge: a proxy in front may ask for them.
func fileLeaseID(r *http.Request) (publish.LeaseID, error) {
	id, err := leaseID(r.Header)
	if err != nil {
		return publish.LeaseID{}, err
	}
	user, password, given := r.BasicAuth()
	if !given || user != leaseUser {
		return id, nil
	}
	basic, err := publish.ParseLeaseID(password)
	switch {
	case err != nil:
		return publish.LeaseID{}, unauthorized()
	case !id.IsZero() && id != basic:
		return publish.LeaseID{}, publish.InvalidField(publish.ErrInvalidRequest, headerLease, "is another lease_id than the password of Authorization; send one of them")
	}
	return basic, nil
}

func unauthorized() error {
	return &publish.Error{
		Code:   publish.ErrUnauthorized,
		Detail: "send the lease_id of the grant in the header " + headerLease + ", or as the password of the user " + leaseUser,
	}
}
