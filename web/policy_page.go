package web

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// pageOperator is who changes a policy on the page without giving a name.
const pageOperator = "page"

// policiesPage is the list of policies, and the form that sets one.
type policiesPage struct {
	frame
	Policies []policyRow
	Next     string
	Action   string
	Audit    string     // the page of who changed what
	By       string     // the name of the credential of who sets one; "" where people say who they are
	May      bool       // whether the caller may set any
	Form     url.Values // what the form holds
	Problem  string     // why what was sent was refused
}

type policyRow struct {
	publish.Policy
	// Removable tells whether the caller may remove it.
	Removable bool
}

// policyFields are the fields of the form. "remove" is the button of a row, with the prefix of its policy.
var policyFields = []string{
	"prefix", "fence_mode", "keep_generations", "keep_for", "keep_unpublished_for", "max_ttl", "max_file_bytes", "max_generation_bytes", "by", "remove",
}

// policiesPage shows the policies to people.
func (h *Handler) policiesPage(c *call) error {
	query, err := c.query("after")
	if err != nil {
		return err
	}
	return h.showPolicies(c, http.StatusOK, query, nil, "")
}

// changePolicy does what the page's form asks for, and shows the page again: with the policy in it, or with what is wrong and all that was typed.
func (h *Handler) changePolicy(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	form, err := readForm(c, policyFields)
	if err != nil {
		return err
	}
	err = h.applyPolicy(c, form)
	var refusal *publish.Error
	if errors.As(err, &refusal) && refusal.Code.Kind().Status < http.StatusInternalServerError {
		return h.showPolicies(c, refusal.Code.Kind().Status, nil, form, saidField(refusal))
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, h.links.policies(""))
}

func (h *Handler) showPolicies(c *call, status int, query, form url.Values, problem string) error {
	after, err := afterPolicy(query)
	if err != nil {
		return err
	}
	list, err := h.service.Policies(c.Request().Context(), c.reach(), after, 0)
	if err != nil {
		return err
	}
	page := policiesPage{
		frame: h.frame(c, "Policies"), By: c.caller.Name, May: !c.allowed(publish.VerbAdmin).Empty(), Action: h.links.policies(""), Audit: h.links.feed("/audit", nil), Form: form, Problem: problem,
	}
	for _, policy := range list.Policies {
		page.Policies = append(page.Policies, policyRow{policy, c.allowed(publish.VerbAdmin).HasPrefix(policy.Prefix)})
	}
	if list.Next != nil {
		page.Next = h.links.policies(*list.Next)
	}
	return renderAs(c, status, "policies", page)
}

// applyPolicy sets or removes a policy.
func (h *Handler) applyPolicy(c *call, form url.Values) error {
	by, err := c.formOperator(form)
	if err != nil {
		return err
	}
	name := "prefix"
	if form.Has("remove") {
		name = "remove"
	}
	prefix, err := parsePrefix(name, form.Get(name))
	if err != nil {
		return err
	}
	if err := c.requireUnder(publish.VerbAdmin, prefix); err != nil {
		return err
	}
	if form.Has("remove") {
		return h.service.UnsetPolicy(c.Request().Context(), prefix, by)
	}
	policy := publish.Policy{Prefix: prefix, FenceMode: publish.FenceMode(form.Get("fence_mode"))}
	limits, spans := policyLimits(&policy)
	for name, limit := range limits {
		if text := form.Get(name); text != "" {
			if *limit, err = strconv.ParseInt(text, 10, 64); err != nil {
				return publish.InvalidField(publish.ErrInvalidRequest, "/"+name, "must be an integer, or empty for no limit")
			}
			if *limit == 0 {
				return noLimit(name)
			}
		}
	}
	for name, span := range spans {
		if text := form.Get(name); text != "" {
			if *span, err = time.ParseDuration(text); err != nil {
				return publish.InvalidField(publish.ErrInvalidRequest, "/"+name, `must be a duration such as "720h", or empty for no limit`)
			}
			if *span == 0 {
				return noLimit(name)
			}
		}
	}
	return h.service.SetPolicy(c.Request().Context(), policy, by)
}

// readForm reads the fields of a form, each at most once.
func readForm(c *call, fields []string) (url.Values, error) {
	if kind, _, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType)); err != nil || kind != echo.MIMEApplicationForm {
		return nil, publish.InvalidField(publish.ErrInvalidRequest, echo.HeaderContentType, "must be "+echo.MIMEApplicationForm+"; programs use the API")
	}
	body, err := readWhole(c.Request(), maxJSONBytes)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, publish.InvalidField(publish.ErrInvalidRequest, "", "the form is not well-formed")
	}
	for name, values := range form {
		if !slices.Contains(fields, name) || len(values) != 1 {
			return nil, publish.InvalidField(publish.ErrInvalidRequest, "/"+name, "is no field of this form, or stands twice")
		}
	}
	return form, nil
}
