package device_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/ptx"
	"github.com/gpc-engine/gpc/kernels/ptx/device"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

func matrix(rng *rand.Rand, rows, cols int) tensor.Matrix {
	m := tensor.New(rows, cols)
	for i := range m.Data {
		m.Data[i] = float32(rng.NormFloat64())
	}
	return m
}

func network(rng *rand.Rand, sizes ...int) *model.MLP {
	mlp := &model.MLP{}
	for i := range sizes[1:] {
		w := matrix(rng, sizes[i+1], sizes[i])
		for j := range w.Data {
			w.Data[j] /= float32(math.Sqrt(float64(sizes[i])))
		}
		mlp.Layers = append(mlp.Layers, model.Layer{W: w, B: matrix(rng, 1, sizes[i+1]).Data})
	}
	return mlp
}

// operations run one kernel of the images and give its results.
var operations = map[string]func(b backend.Backend) ([]float32, error){
	"gpc_mlp_forward_32": func(b backend.Backend) ([]float32, error) {
		rng := rand.New(rand.NewPCG(1, 2))
		net, err := b.NewNet(network(rng, 12, 70, 70, 9))
		if err != nil {
			return nil, err
		}
		y := tensor.New(600, 9)
		err = net.Forward(matrix(rng, 600, 12), y)
		return y.Data, err
	},
	"gpc_jacobian_16": func(b backend.Backend) ([]float32, error) {
		rng := rand.New(rand.NewPCG(1, 2))
		net, err := b.NewNet(network(rng, 12, 70, 70, 70))
		if err != nil {
			return nil, err
		}
		g := tensor.New(33, 144)
		err = net.Metric(matrix(rng, 33, 12), 1e-3, g)
		return g.Data, err
	},
	"gpc_eig_32": func(b backend.Backend) ([]float32, error) {
		rng := rand.New(rand.NewPCG(1, 2))
		const n, k, rows = 12, 3, 600
		g := tensor.New(rows, n*n)
		for r := range rows {
			a := matrix(rng, n, n)
			for i := range n {
				for j := range n {
					for l := range n {
						g.Data[r*n*n+i*n+j] += a.Data[i*n+l] * a.Data[j*n+l]
					}
				}
			}
		}
		values, vectors := tensor.New(rows, k), tensor.New(rows, n*k)
		err := b.EigTopK(g, n, k, values, vectors)
		return slices.Concat(values.Data, vectors.Data), err
	},
	"gpc_search_sieve_16": func(b backend.Backend) ([]float32, error) {
		rng := rand.New(rand.NewPCG(1, 2))
		ix, err := b.NewIndex(matrix(rng, 500, 6), matrix(rng, 500, 4))
		if err != nil {
			return nil, err
		}
		z, tau := tensor.New(33, 6), make([]float32, 33)
		for i := range tau {
			tau[i] = 1
		}
		err = ix.Localize(matrix(rng, 33, 4), matrix(rng, 33, 6), tau, 5, backend.LocalizeOutput{Z: z, Nearest: make([]int32, 33), Consistent: make([]bool, 33), Residual: make([]float32, 33)})
		return z.Data, err
	},
}

// computed runs an operation on images whose text edit has changed.
func computed(t testing.TB, op string, tf32 bool, edit func(text []byte) []byte) ([]float32, error) {
	t.Helper()
	d := device.New(ptx.Options{Shared: true, Global: true})
	d.SetAttribute(driver.Multiprocessors, 4)
	d.Edit = edit
	b := require.Get(kernels.New(require.Get(driver.Open(d, 0))(t), kernels.Options{TF32: tf32}))(t)
	defer b.Close()
	return operations[op](b)
}

// change replaces the n-th place of an entry that matches.
func change(entry string, place *regexp.Regexp, n int, with string, hit *string) func(text []byte) []byte {
	return func(text []byte) []byte {
		s := string(text)
		at := strings.Index(s, ".entry "+entry+"(")
		if at < 0 {
			return text
		}
		end := len(s)
		if next := strings.Index(s[at+1:], ".entry "); next >= 0 {
			end = at + 1 + next
		}
		found := place.FindAllStringSubmatchIndex(s[at:end], -1)
		if n >= len(found) {
			return text
		}
		m := found[n]
		*hit = strings.TrimSpace(s[at+m[0] : at+m[1]])
		return []byte(s[:at+m[0]] + string(place.ExpandString(nil, with, s[at:end], m)) + s[at+m[1]:])
	}
}

// Faults put into the images that ship are found: a barrier or a barrier of a warp taken
// out, a shuffle of other lanes, and fragments of tensor cores exchanged, which only the
// result shows. The places are among those that these sizes execute.
func TestFaultsInOurImagesAreFound(t *testing.T) {
	const (
		barrier  = `bar\.sync\s+0;`
		warp     = `bar\.warp\.sync\s+-1;`
		shuffle  = `shfl\.sync\.bfly\.b32`
		fragment = `(mma\.sync\S+\s+\{[^}]*\},\s*\{%r\d+),(\s*%r\d+),(\s*%r\d+)`
	)
	right := map[string][]float32{}
	for _, f := range []struct {
		op, entry, what, with string
		tf32                  bool
		at                    int
	}{
		{op: "gpc_jacobian_16", what: barrier, at: 1}, {op: "gpc_jacobian_16", what: barrier, at: 4}, {op: "gpc_jacobian_16", what: barrier, at: 9},
		{op: "gpc_jacobian_16", what: barrier, at: 14},
		{op: "gpc_eig_32", what: barrier, at: 0}, {op: "gpc_eig_32", what: warp, at: 0}, {op: "gpc_eig_32", what: warp, at: 3}, {op: "gpc_eig_32", what: warp, at: 8},
		{op: "gpc_eig_32", what: shuffle, with: "shfl.sync.up.b32", at: 2}, {op: "gpc_eig_32", what: shuffle, with: "shfl.sync.up.b32", at: 8}, {op: "gpc_eig_32", what: shuffle, with: "shfl.sync.idx.b32", at: 3},
		{op: "gpc_mlp_forward_32", entry: "gpc_mlp_forward_32_tf32", what: fragment, with: "${1},${3},${2}", tf32: true, at: 0},
	} {
		if testing.Short() && f.at > 3 {
			continue
		}
		key := fmt.Sprint(f.op, f.tf32)
		if right[key] == nil {
			right[key] = require.Get(computed(t, f.op, f.tf32, nil))(t)
		}
		if f.entry == "" {
			f.entry = f.op
		}
		hit := ""
		got, err := computed(t, f.op, f.tf32, change(f.entry, regexp.MustCompile(f.what), f.at, f.with, &hit))
		if hit == "" {
			t.Errorf("%s has no place %d of %s", f.entry, f.at, f.what)
			continue
		}
		found := err != nil && strings.Contains(err.Error(), f.entry)
		if f.with != "" {
			found = found || slices.ContainsFunc(got, func(v float32) bool { return v != v })
			for i := range got {
				found = found || math.Abs(float64(got[i]-right[key][i])) > 1e-2
			}
		}
		if !found {
			t.Errorf("%s, place %d: %q made %q was not found: %v", f.entry, f.at, hit, f.with, err)
		}
	}
}
