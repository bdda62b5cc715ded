//go:build !amd64 || purego

package lanes

import "github.com/gpc-engine/gpc/internal/simd/isa"

func execute(_ isa.Level, code []uint32, cells []float64, width int) { interpret(code, cells, width) }
func transposes(isa.Level) bool                                      { return false }

func scatterRows(*float64, *float64, uintptr, int) {}

func gatherRows(*float64, uintptr, int, *float64, int) {}
