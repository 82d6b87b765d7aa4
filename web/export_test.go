package web

// RouteNames lists all routes as "METHOD pattern".
func RouteNames() []string {
	var names []string
	for _, r := range routes() {
		names = append(names, r.method+" "+r.pattern)
	}
	return names
}
