package web

import "github.com/pawlhq/pawl/publish"

// reach is the keys that the caller may read: what lists, feeds and streams show of all that there is.
func (c *call) reach() publish.Reach { return c.allowed(publish.VerbRead) }

// adminReach is the keys of which the caller is an admin: what the audit shows.
func (c *call) adminReach() publish.Reach { return c.allowed(publish.VerbAdmin) }
