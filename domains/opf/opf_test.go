package opf

import (
	"testing"

	"github.com/gpc-engine/gpc/domaintest"
)

func TestContract(t *testing.T)          { domaintest.Run(t, Thirty()) }
func TestContractUncertain(t *testing.T) { domaintest.Run(t, ThirtyUncertain()) }
