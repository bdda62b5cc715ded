package backend

import (
	"cmp"
	"fmt"

	"github.com/gpc-engine/gpc/tensor"
)

// Every backend checks the arguments of an operation once, by the functions below,
// before it computes. Their errors name the operation and the argument.

// CheckOutput is tensor.Check of a matrix that is written: its rows must not be one
// and the same.
func CheckOutput(op, name string, m tensor.Matrix, rows, cols int) error {
	if err := tensor.Check(op, name, m, rows, cols); err != nil {
		return err
	}
	if rows > 1 && cols > 0 && m.Stride == 0 {
		return fmt.Errorf("%s: %s is written and a broadcast of one row (stride 0), want rows of their own", op, name)
	}
	return nil
}

// checkWanted is CheckOutput of a matrix that is not written where it has no rows.
func checkWanted(op, name string, m tensor.Matrix, rows, cols int) error {
	if m.Rows == 0 {
		return nil
	}
	return CheckOutput(op, name, m, rows, cols)
}

func checkLength(op, name string, isNil bool, length, rows int) error {
	if isNil || length == rows {
		return nil
	}
	return fmt.Errorf("%s: %s has %d entries, want one for each of %d rows", op, name, length, rows)
}

// CheckNet checks an operation of a Net: its input z [B, in] and its output
// [B, cols].
func CheckNet(op string, z tensor.Matrix, in int, name string, out tensor.Matrix, cols int) error {
	return cmp.Or(tensor.Check(op, "z", z, z.Rows, in), CheckOutput(op, name, out, z.Rows, cols))
}

// CheckEigTopK checks the arguments of Backend.EigTopK.
func CheckEigTopK(g tensor.Matrix, n, k int, values, vectors tensor.Matrix) error {
	const op = "EigTopK"
	if n < 1 || k < 1 || k > n {
		return fmt.Errorf("%s: k = %d of n = %d, want 1 ≤ k ≤ n", op, k, n)
	}
	return cmp.Or(tensor.Check(op, "g", g, g.Rows, n*n), CheckOutput(op, "values", values, g.Rows, k), CheckOutput(op, "vectors", vectors, g.Rows, n*k))
}

// CheckIndex checks the arguments of Backend.NewIndex: at least one code of at least
// one coordinate, as many decoded states, all finite.
func CheckIndex(codes, decoded tensor.Matrix) error {
	const op = "NewIndex"
	if codes.Rows == 0 || codes.Cols == 0 {
		return fmt.Errorf("%s: %d codes of %d coordinates, want at least one of each", op, codes.Rows, codes.Cols)
	}
	if err := cmp.Or(tensor.Check(op, "codes", codes, codes.Rows, codes.Cols), tensor.Check(op, "decoded", decoded, codes.Rows, decoded.Cols)); err != nil {
		return err
	}
	for i := range codes.Rows {
		if !tensor.Finite(codes.Row(i)) || !tensor.Finite(decoded.Row(i)) {
			return fmt.Errorf("%s: code %d or its decoded state is not finite", op, i)
		}
	}
	return nil
}

// CheckLocalize checks the arguments of Index.Localize for codes of latent
// coordinates and states of a decoded one.
func CheckLocalize(latent, states int, x, zobs tensor.Matrix, tau []float32, neighbours int, out LocalizeOutput) error {
	const op = "Localize"
	rows := zobs.Rows
	if err := cmp.Or(tensor.Check(op, "zobs", zobs, rows, latent), tensor.Check(op, "x", x, rows, states)); err != nil {
		return err
	}
	if neighbours < 0 {
		return fmt.Errorf("%s: %d neighbours, want at least 0", op, neighbours)
	}
	return cmp.Or(
		checkLength(op, "tau", false, len(tau), rows), checkLength(op, "out.Nearest", out.Nearest == nil, len(out.Nearest), rows),
		checkLength(op, "out.Residual", out.Residual == nil, len(out.Residual), rows),
		checkLength(op, "out.Consistent", out.Consistent == nil, len(out.Consistent), rows), checkWanted(op, "out.Z", out.Z, rows, latent),
	)
}

// CheckNearest checks the arguments of Index.Nearest for count codes of latent
// coordinates.
func CheckNearest(count, latent int, z tensor.Matrix, k int, idx []int32, dist2 []float32) error {
	const op = "Nearest"
	if err := tensor.Check(op, "z", z, z.Rows, latent); err != nil {
		return err
	}
	if k < 1 || k > count {
		return fmt.Errorf("%s: k is %d, want 1 to the number of codes, %d", op, k, count)
	}
	if len(idx) != z.Rows*k || len(dist2) != z.Rows*k {
		return fmt.Errorf("%s: idx has %d and dist2 %d entries, want %d rows × %d", op, len(idx), len(dist2), z.Rows, k)
	}
	return nil
}

// StepSizes are the columns of what a Stepper reads and writes.
type StepSizes struct {
	Latent, States, Plan int
	Problem              bool // without one contexts and objectives are not read
	Contexts, Objectives int
}

// Sizes are those of a stepper of this configuration.
func (c StepperConfig) Sizes() StepSizes {
	s := StepSizes{Latent: c.DecoderS.In(), States: c.DecoderS.Out(), Plan: c.DecoderU.Out()}
	if c.Problem != nil {
		spec := c.Problem.Spec()
		s.Problem, s.Contexts, s.Objectives = true, spec.ContextSize(), spec.ObjectiveSize()
	}
	return s
}

func (s StepSizes) checkInput(op string, input StepInput) error {
	rows := input.Z.Rows
	err := cmp.Or(tensor.Check(op, "Z", input.Z, rows, s.Latent), tensor.Check(op, "X", input.X, rows, s.States))
	if err != nil || !s.Problem {
		return err
	}
	return cmp.Or(tensor.Check(op, "Ctx", input.Ctx, rows, s.Contexts), tensor.Check(op, "Weights", input.Weights, rows, s.Objectives))
}

// CheckStep checks the arguments of Stepper.Step.
func (s StepSizes) CheckStep(in StepInput, out StepOutput) error {
	const op = "Step"
	rows := in.Z.Rows
	return cmp.Or(
		s.checkInput(op, in), checkWanted(op, "output Z", out.Z, rows, s.Latent), checkWanted(op, "output U", out.U, rows, s.Plan),
		checkLength(op, "Energy", out.Energy == nil, len(out.Energy), rows), checkLength(op, "Fallbacks", out.Fallbacks == nil, len(out.Fallbacks), rows),
	)
}

// CheckField checks the arguments of Stepper.Field.
func (s StepSizes) CheckField(input StepInput, f tensor.Matrix, energy []float32) error {
	const op = "Field"
	return cmp.Or(s.checkInput(op, input), CheckOutput(op, "f", f, input.Z.Rows, s.Latent), checkLength(op, "energy", energy == nil, len(energy), input.Z.Rows))
}

// CheckDecode checks the arguments of Stepper.Decode.
func (s StepSizes) CheckDecode(z, ctx, x, u, states tensor.Matrix) error {
	const op = "Decode"
	err := tensor.Check(op, "z", z, z.Rows, s.Latent)
	if err == nil && s.Problem {
		err = cmp.Or(tensor.Check(op, "x", x, z.Rows, s.States), tensor.Check(op, "ctx", ctx, z.Rows, s.Contexts))
	}
	return cmp.Or(err, CheckOutput(op, "u", u, z.Rows, s.Plan), checkWanted(op, "s", states, z.Rows, s.States))
}
