package gallery

import (
	"fmt"

	"github.com/gpc-engine/gpc/domain"
)

// Cases makes the case of every system.
func Cases() ([]domain.Case, error) {
	var cases []domain.Case
	for _, y := range made(All()) {
		c, err := y.Case()
		if err != nil {
			return nil, fmt.Errorf("gallery: %w", err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}
