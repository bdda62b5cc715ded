//go:build ipopt

package ipoptcheck

/*
#cgo LDFLAGS: -lcoinmumps
#include <stdlib.h>
#include <mumps/dmumps_c.h>

static DMUMPS_STRUC_C *begin(int n, int entries) {
	DMUMPS_STRUC_C *s = calloc(1, sizeof *s);
	if (!s) return NULL;
	s->job = -1, s->par = 1, s->sym = 2, s->comm_fortran = -987654;
	dmumps_c(s);
	s->n = n, s->nnz = entries;
	s->irn = malloc(entries * sizeof *s->irn);
	s->jcn = malloc(entries * sizeof *s->jcn);
	s->a = malloc(entries * sizeof *s->a);
	return s;
}

static int job(DMUMPS_STRUC_C *s, int what) {
	s->job = what;
	dmumps_c(s);
	return s->infog[0];
}

static void end(DMUMPS_STRUC_C *s) {
	job(s, -2);
	free(s->irn);
	free(s->jcn);
	free(s->a);
	free(s);
}
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/internal/machine"
)

// MUMPS factors the matrix that IPOPT factors at an optimum of its program, with IPOPT's settings.
type MUMPS struct {
	s *C.DMUMPS_STRUC_C
	// Analysis is the CPU time of what is done once for the places of the entries. Order is the matrix's; Negative counts the negative eigenvalues and Flops the floating-point
	// operations of the last factorisation, by MUMPS' own count.
	Analysis        time.Duration
	Order, Negative int
	Flops           float64
}

func mumpsVersion() string { return C.MUMPS_VERSION }

// NewMUMPS analyses the matrix. Close frees what it holds outside Go.
func NewMUMPS(p *Program, at *acopf.Result) (*MUMPS, error) {
	k := p.f.kkt(at)
	entries := len(k.values)
	m := &MUMPS{s: C.begin(C.int(k.size), C.int(entries)), Order: k.size}
	if m.s == nil {
		return nil, fmt.Errorf("ipoptcheck: no memory for MUMPS")
	}
	row, column := unsafe.Slice((*int32)(unsafe.Pointer(m.s.irn)), entries), unsafe.Slice((*int32)(unsafe.Pointer(m.s.jcn)), entries)
	for i := range entries {
		row[i], column[i] = k.row[i]+1, k.column[i]+1
	}
	copy(unsafe.Slice((*float64)(unsafe.Pointer(m.s.a)), entries), k.values)
	// IPOPT's defaults: quiet, scaling and permutation and ordering by MUMPS' choice, no refinement,
	// ten times the memory, pivots of a millionth, none replaced.
	for option, value := range map[int]C.MUMPS_INT{2: 0, 3: 0, 4: 0, 6: 7, 7: 7, 8: 77, 10: 0, 13: 1, 14: 1000} {
		m.s.icntl[option-1] = value
	}
	m.s.cntl[0], m.s.cntl[3] = 1e-6, -1
	before := machine.CPUTime()
	status := C.job(m.s, 1)
	if m.Analysis = machine.CPUTime() - before; status < 0 {
		m.Close()
		return nil, fmt.Errorf("ipoptcheck: MUMPS' analysis ends with %d", int(status))
	}
	return m, nil
}

// Factor is one numeric factorisation.
func (m *MUMPS) Factor() error {
	if status := C.job(m.s, 2); status < 0 {
		return fmt.Errorf("ipoptcheck: MUMPS' factorisation ends with %d", int(status))
	}
	m.Negative, m.Flops = int(m.s.infog[11]), float64(m.s.rinfog[2])
	return nil
}

// Close frees MUMPS. It must not be used afterwards.
func (m *MUMPS) Close() { C.end(m.s) }
