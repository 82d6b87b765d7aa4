package web

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/pawlhq/pawl/publish"
)

// refuseForeignOrigins refuses changing requests that a browser sends on behalf of another site's page. Bodies are accepted under any
// Content-Type, so without it any page could post to a server on the reader's own machine. Programs that aren't browsers send
// neither Sec-Fetch-Site nor Origin and pass.
func refuseForeignOrigins(next echo.HandlerFunc) echo.HandlerFunc {
	protection := http.NewCrossOriginProtection()
	return func(c echo.Context) error {
		if err := protection.Check(c.Request()); err != nil {
			return &publish.Error{
				Code: publish.ErrForbidden, Cause: err,
				Detail: "a page of another site may not change anything here; send the request from a program, or from this server's own page",
			}
		}
		return next(c)
	}
}
