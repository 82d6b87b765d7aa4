package oidc

import (
	"testing"

	"github.com/pawlhq/pawl/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
