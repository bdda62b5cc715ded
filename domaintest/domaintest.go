// Package domaintest holds a domain to the contract of package domain. Call Run
// from the domain's own tests.
package domaintest

import (
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backendtest"
)

// Run checks a case: gradients against central differences, batched and blocked
// forms against rows, projections against margins, indicators, fallbacks, the
// solver's samples, and that the plant replays an episode bit for bit.
func Run(t *testing.T, c domain.Case) { backendtest.RunDomain(t, c) }
