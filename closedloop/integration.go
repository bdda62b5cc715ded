package closedloop

import "fmt"

// Integration says what the integrator of a plant is worth: the same episodes in the plant, and in one that takes
// Factor times its substeps.
type Integration struct {
	Episodes  int    `json:"episodes"`   // driven in both plants
	Factor    int    `json:"factor"`     // of the substeps of the finer one
	CostPct   Number `json:"cost_pct"`   // of the mean cost in the finer plant above that in the plant, %
	Safe      int    `json:"safe"`       // episodes in the plant
	SafeFiner int    `json:"safe_finer"` // episodes in the finer one
}

// String is a line of it.
func (i *Integration) String() string {
	text := fmt.Sprintf("integration: %s %%", i.CostPct.Text("%.2g"))
	if i.Safe != i.SafeFiner {
		text += fmt.Sprintf(", safe in %d of %d episodes, and in %d with steps of 1/%d: the equations are not integrated well enough", i.Safe, i.Episodes, i.SafeFiner, i.Factor)
	}
	return text
}
