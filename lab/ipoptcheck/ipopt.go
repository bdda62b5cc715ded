//go:build ipopt

package ipoptcheck

/*
#cgo CPPFLAGS: -I${SRCDIR}/../../build/ipopt/casadi/include/coin-or
#cgo LDFLAGS: -L${SRCDIR}/../../build/ipopt/casadi -lipopt -Wl,-rpath,${SRCDIR}/../../build/ipopt/casadi
#include <stdlib.h>
#include "tnlp.h"
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"time"
	"unsafe"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/machine"
)

// Version names the IPOPT that is linked, and its linear solver.
func Version() string {
	var major, minor, release C.int
	C.gpcVersion(&major, &minor, &release)
	return fmt.Sprintf("IPOPT %d.%d.%d with MUMPS %s", major, minor, release, mumpsVersion())
}

// Solution is what IPOPT ended with.
type Solution struct {
	Optimal    bool // IPOPT's Solve_Succeeded
	Acceptable bool // IPOPT's Solved_To_Acceptable_Level: not to its tolerance, and no step gets nearer
	Status     int  // IPOPT's ApplicationReturnStatus
	Iterations int
	Objective  float64
	J          [3]float64 // raw J₁, J₂, J₃
	Vm, Va     []float64  // by bus, pu and rad
	Pg, Qg     []float64  // by generator, pu
	Wall       time.Duration
	// Derivatives is CPU time of the formulation's functions and derivatives, which are in Go.
	Derivatives time.Duration
}

// Program is one problem as IPOPT holds it; it can be solved again and again.
type Program struct {
	f          *formulation // of what a solution has first
	nlp        nonlinear
	problem    *C.gpcProgram
	handle     cgo.Handle
	solved     bool // so that there is an analysis
	iterations int
	evaluating time.Duration
	refused    string // an option
}

func (s *shape) of() *shape { return s }

// nonlinear is a nonlinear program in that form.
type nonlinear interface {
	of() *shape
	objective(x []float64) float64
	gradient(x, out []float64)
	constraints(x, out []float64)
	visitJacobian(x []float64, add func(row, column int, value float64))
	visitHessian(x []float64, factor float64, lambda []float64, add func(row, column int, value float64))
}

// Settings are what New asks of IPOPT.
type Settings int

const (
	// Exact stops at 1e-9 on the problem as it is: for comparing optima. IPOPT's
	// own scaling would loosen that by the size of the objective's gradient.
	Exact Settings = iota
	// Default is IPOPT as it comes, to 1e-8 on a scaled problem: for comparing times.
	Default
)

// New formulates a problem on a network. Close frees what it holds outside Go.
func New(n *network.Network, pr *acopf.Problem, settings Settings) (*Program, error) {
	f, err := formulate(n, pr)
	if err != nil {
		return nil, err
	}
	return newProgram(f, f, settings)
}

// newProgram hands a nonlinear program to IPOPT.
func newProgram(f *formulation, nlp nonlinear, settings Settings) (*Program, error) {
	s := nlp.of()
	number := func(v []float64) *C.double { return (*C.double)(unsafe.SliceData(v)) }
	p := &Program{f: f, nlp: nlp}
	p.handle = cgo.NewHandle(p)
	p.problem = C.gpcCreate(C.int(len(s.x0)), C.int(len(s.glo)), C.int(len(s.jacobian.row)), C.int(len(s.hessian.row)),
		number(s.xlo), number(s.xhi), number(s.glo), number(s.ghi), number(s.x0), C.uintptr_t(p.handle))
	if p.problem == nil {
		p.handle.Delete()
		return nil, fmt.Errorf("ipoptcheck: IPOPT refused network %s", f.net.Name)
	}
	taken := p.text("sb", "yes") && p.text("linear_solver", "mumps") && p.whole("print_level", 0) && p.whole("max_iter", 500)
	if settings == Exact {
		taken = taken && p.text("nlp_scaling_method", "none") && p.number("tol", 1e-9) &&
			p.number("constr_viol_tol", 1e-9) && p.number("bound_relax_factor", 0)
	}
	if !taken {
		p.Close()
		return nil, fmt.Errorf("ipoptcheck: IPOPT does not take the option %s", p.refused)
	}
	return p, nil
}

// Limit ends solves that take more CPU time.
func (p *Program) Limit(cpu time.Duration) error {
	if !p.number("max_cpu_time", cpu.Seconds()) {
		return fmt.Errorf("ipoptcheck: IPOPT does not take the option %s", p.refused)
	}
	return nil
}

// text, whole and number set an option and say whether IPOPT took it.
func (p *Program) text(name, value string) bool {
	v := C.CString(value)
	defer C.free(unsafe.Pointer(v))
	return p.set(name, func(k *C.char) C.bool { return C.gpcText(p.problem, k, v) })
}

func (p *Program) whole(name string, value int) bool {
	return p.set(name, func(k *C.char) C.bool { return C.gpcWhole(p.problem, k, C.int(value)) })
}

func (p *Program) number(name string, value float64) bool {
	return p.set(name, func(k *C.char) C.bool { return C.gpcNumber(p.problem, k, C.double(value)) })
}

func (p *Program) set(name string, do func(*C.char) C.bool) bool {
	k := C.CString(name)
	defer C.free(unsafe.Pointer(k))
	if !bool(do(k)) {
		p.refused = name
		return false
	}
	return true
}

// Close frees the program. It must not be used afterwards.
func (p *Program) Close() {
	C.gpcFree(p.problem)
	p.handle.Delete()
}

// Solve runs IPOPT from the flat start; it analyses the program anew.
func (p *Program) Solve() Solution { return p.solve(false) }

// Again is Solve with what IPOPT analysed in the last one, where there was one; its interface to MUMPS has that analyse anew all the
// same (MUMPS.Analysis).
func (p *Program) Again() Solution { return p.solve(true) }

func (p *Program) solve(again bool) Solution {
	f := p.f
	x := make([]float64, len(p.nlp.of().x0))
	p.iterations, p.evaluating = 0, 0
	var value C.double
	start := time.Now()
	status := int(C.gpcSolve(p.problem, C.bool(again && p.solved), (*C.double)(unsafe.SliceData(x)), &value))
	wall := time.Since(start)
	p.solved = true
	nb, ng := f.net.Buses(), f.net.Gens()
	return Solution{
		Optimal: status == 0, Acceptable: status == 1, Status: status, Iterations: p.iterations, Objective: float64(value), J: f.objectives(x),
		Va: x[:nb], Vm: x[nb : 2*nb], Pg: x[2*nb : 2*nb+ng], Qg: x[2*nb+ng : 2*nb+2*ng], Wall: wall, Derivatives: p.evaluating,
	}
}

// evaluate calls f with the nonlinear program of a handle and counts its CPU time.
func evaluate(handle C.uintptr_t, f func(p nonlinear, s *shape)) {
	p := cgo.Handle(handle).Value().(*Program)
	before := machine.CPUTime()
	f(p.nlp, p.nlp.of())
	p.evaluating += machine.CPUTime() - before
}

func floats(p *C.double, n int) []float64 { return unsafe.Slice((*float64)(p), n) }

// places writes where the entries of a derivative are.
func (p *pattern) places(row, column *C.int) {
	copy(unsafe.Slice((*int32)(row), len(p.row)), p.row)
	copy(unsafe.Slice((*int32)(column), len(p.column)), p.column)
}

//export gpcObjective
func gpcObjective(handle C.uintptr_t, x, value *C.double) {
	evaluate(handle, func(p nonlinear, s *shape) { *value = C.double(p.objective(floats(x, len(s.x0)))) })
}

//export gpcGradient
func gpcGradient(handle C.uintptr_t, x, out *C.double) {
	evaluate(handle, func(p nonlinear, s *shape) { p.gradient(floats(x, len(s.x0)), floats(out, len(s.x0))) })
}

//export gpcConstraints
func gpcConstraints(handle C.uintptr_t, x, out *C.double) {
	evaluate(handle, func(p nonlinear, s *shape) { p.constraints(floats(x, len(s.x0)), floats(out, len(s.glo))) })
}

//export gpcJacobian
func gpcJacobian(handle C.uintptr_t, x *C.double, row, column *C.int, values *C.double) {
	evaluate(handle, func(p nonlinear, s *shape) {
		if values == nil {
			s.jacobian.places(row, column)
			return
		}
		p.visitJacobian(floats(x, len(s.x0)), s.jacobian.fill(floats(values, len(s.jacobian.row))))
	})
}

//export gpcHessian
func gpcHessian(handle C.uintptr_t, x *C.double, factor C.double, lambda *C.double, row, column *C.int, values *C.double) {
	evaluate(handle, func(p nonlinear, s *shape) {
		if values == nil {
			s.hessian.places(row, column)
			return
		}
		p.visitHessian(floats(x, len(s.x0)), float64(factor), floats(lambda, len(s.glo)), s.hessian.fill(floats(values, len(s.hessian.row))))
	})
}

//export gpcProgress
func gpcProgress(handle C.uintptr_t, iteration C.int) {
	cgo.Handle(handle).Value().(*Program).iterations = int(iteration)
}
