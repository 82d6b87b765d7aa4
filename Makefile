# make run    build Pawl and start it with everything it needs, data kept in the usual place
# make test   every test, with the race detector
# make fuzz   every fuzz target, each for FUZZTIME
# make lint   every linter
#
# On Debian and Ubuntu these install what is missing; elsewhere they say what it is. Go is all that is needed first.

GO ?= go
ARGS ?=
TESTFLAGS ?=
PACKAGES ?= ./...
FUZZTIME ?= 10s
FORMAT ?=

GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
VERSITYGW = github.com/versity/versitygw/cmd/versitygw@v1.8.0
# For tests of the pages; it isn't a part of Pawl. The sum is that of npm's package.
AXE = axe-core@4.14.1
AXE_SHA512 = 1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b734f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5

# Tools are built once for all clones on a machine, anew for each version of a tool or of Go, and linked to .tools/bin.
TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pawl-tools/$(shell $(GO) env GOVERSION)

.PHONY: run build setup test fuzz test-docker test-s3 bench bench-page screenshots lint lint-code format vulnerabilities tools tool-% clean
.DEFAULT_GOAL := build

run: build
	@.ci/setup run
	@exec bin/pawl dev $(ARGS)

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/pawl ./cmd/pawl

setup:
	@.ci/setup run test

# Container tests are skipped unless a Docker engine answers; `make test-docker` runs them with one of its own.
# Nothing is taken from the cache: the tests of whole processes build the program themselves, which the cache does not see. Packages run one after the
# other, so that those tests have the machine to themselves; what can be built side by side is built first.
test: setup tool-versitygw tool-axe
	$(GO) test -race -run '^$$' $(PACKAGES) >/dev/null
	$(GO) test -race -count=1 -p 1 -timeout 40m $(TESTFLAGS) $(PACKAGES)

# What a target found is in testdata/fuzz of its package then.
fuzz:
	@GO="$(GO)" .ci/fuzz $(FUZZTIME)

test-docker: setup tool-versitygw
	@.ci/setup docker
	@PAWL_TEST_NO_SKIP=1 .ci/with-docker $(GO) test -race -timeout 40m -run Docker $(TESTFLAGS) $(PACKAGES)

# The tests of the S3 side against any server, with keys that may make buckets: they make their own and remove them.
#   make test-s3 ENDPOINT=https://host:port ACCESS_KEY=… SECRET_KEY=… [REGION=us-east-1]
test-s3:
	@test -n "$(ENDPOINT)" || { echo "make test-s3: give ENDPOINT=https://host:port ACCESS_KEY=… SECRET_KEY=…" >&2; exit 2; }
	@PAWL_TEST_S3_ENDPOINT="$(ENDPOINT)" PAWL_TEST_S3_ACCESS_KEY="$(ACCESS_KEY)" PAWL_TEST_S3_SECRET_KEY="$(SECRET_KEY)" \
		PAWL_TEST_S3_REGION="$(REGION)" $(GO) test -race -count=1 -timeout 40m -run '$(or $(RUN),S3|Direct|Part|Case)' $(TESTFLAGS) ./blobstore

# `pawl put` of 1 GiB beside a plain program of the same S3 library, by turns; needs 16 GiB of disk.
bench: setup tool-versitygw
	$(GO) test -run '^$$' -bench Put -benchtime 1x -timeout 40m $(TESTFLAGS) ./internal/e2e

# The server's time of every read behind the page and of its screens, with KEYS keys in Postgres: some minutes, and about 3 GB of disk. Other work on
# the machine shows in the figures.
bench-page: setup
	PAWL_BENCH_KEYS=$(or $(KEYS),1000000) $(GO) test -v -run '^$$' -bench Page -benchtime 1x -timeout 30m $(TESTFLAGS) ./bench/page

# The pictures of the README, taken anew: a `pawl dev` of its own is filled with a day of a small studio.
screenshots: setup
	$(GO) test -count=1 -run '^TestScreenshots$$' -timeout 10m $(TESTFLAGS) ./internal/e2e -pictures $(CURDIR)/docs/pictures

lint: lint-code vulnerabilities

lint-code: tool-golangci-lint
	.tools/bin/golangci-lint run $(PACKAGES)

# Formats as the linter wants it.
format: tool-golangci-lint
	.tools/bin/golangci-lint fmt $(FORMAT)

# The tool exits with 3 for a finding, and with 1 when it can't work, as without its database.
vulnerabilities: tool-govulncheck
	@timeout 300 .tools/bin/govulncheck $(PACKAGES) >.tools/govulncheck.log 2>&1; status=$$?; \
	if [ $$status -eq 0 ]; then \
		echo "govulncheck: no known vulnerabilities"; \
	elif grep -q 'fetching vulnerabilities\|vulnerability database' .tools/govulncheck.log && [ $$status -ne 3 ]; then \
		echo "govulncheck: not checked, its database can't be reached from here"; \
	else \
		cat .tools/govulncheck.log; exit $$status; \
	fi

tools: tool-golangci-lint tool-govulncheck tool-versitygw tool-axe

tool-golangci-lint: ; @$(call install,$(GOLANGCI_LINT))
tool-govulncheck: ; @$(call install,$(GOVULNCHECK))
tool-versitygw: ; @$(call install,$(VERSITYGW))

tool-axe:
	@mkdir -p .tools; dir="$(TOOLS)/$(AXE)"; \
	if [ ! -f "$$dir/axe.min.js" ]; then \
		.ci/setup axe && echo "fetching $(AXE)" && mkdir -p "$(TOOLS)" && work=$$(mktemp -d "$(TOOLS)/axe.XXXXXX") && ( \
			cd "$$work" && npm pack --silent $(AXE) >/dev/null && \
			echo "$(AXE_SHA512)  $(subst @,-,$(AXE)).tgz" | sha512sum --check --quiet && \
			tar xzf $(subst @,-,$(AXE)).tgz package/axe.min.js && mkdir -p "$$dir" && mv package/axe.min.js "$$dir/" \
		); status=$$?; rm -rf "$$work"; [ $$status -eq 0 ] || exit $$status; \
	fi; \
	ln -sfn "$$dir/axe.min.js" .tools/axe.min.js

# install builds a tool from source unless this version is there. The folder is filled under another name first, so
# an interrupted build is not taken for a finished one.
define install
mkdir -p .tools/bin; name=$(notdir $(firstword $(subst @, ,$(1)))); version=$(lastword $(subst @, ,$(1))); \
dir="$(TOOLS)/$$name-$$version"; \
if [ ! -x "$$dir/$$name" ]; then \
	echo "building $$name $$version"; \
	CGO_ENABLED=0 GOBIN="$$dir.$$$$" $(GO) install -trimpath $(1) && \
	mkdir -p "$$dir" && mv "$$dir.$$$$/$$name" "$$dir/$$name" && rmdir "$$dir.$$$$" || exit 1; \
fi; \
ln -sfn "$$dir/$$name" .tools/bin/$$name
endef

clean:
	rm -rf bin .tools
