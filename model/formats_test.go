package model_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/pages"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
)

// docs/reference/formats.md has every tensor and key of a model file, and none besides.
func TestFormatsPage(t *testing.T) {
	page := require.Get(pages.ReadKeys("../docs/reference/formats.md"))(t)
	m := testdomain.Untrained(rand.New(rand.NewPCG(1, 2)), testdomain.NewCart(4).Spec(), 3, 5, 8, 8)
	m.DecoderUManifold = m.DecoderU.Clone()
	var file bytes.Buffer
	require.OK(t, m.Write(&file))
	text := file.Bytes()[8:][:binary.LittleEndian.Uint64(file.Bytes())]
	var header map[string]json.RawMessage
	require.OK(t, json.Unmarshal(text, &header))
	var metadata map[string]string
	require.OK(t, json.Unmarshal(header["__metadata__"], &metadata))
	delete(header, "__metadata__")
	layer := regexp.MustCompile(`\.\d+\.`)
	tensors := map[string]bool{}
	for name := range header {
		tensors[layer.ReplaceAllString(name, ".N.")] = true
	}
	for _, d := range slices.Concat(
		page.Against("tensors", slices.Sorted(maps.Keys(tensors))), page.Against("__metadata__", slices.Sorted(maps.Keys(metadata))),
		page.Differences("calibration", model.Calibration{}), page.Differences("provenance", model.Provenance{}), page.Differences("navigation", domain.Navigation{}),
	) {
		t.Error(d)
	}
}

// A model of its own tensors is the same map with another provenance; tensors that do not make
// one are refused by name.
func TestReplacedIsAMapOfItsTensors(t *testing.T) {
	m := testdomain.Untrained(rand.New(rand.NewPCG(1, 2)), testdomain.NewCart(4).Spec(), 3, 5, 8, 8)
	by := model.Provenance{Command: "elsewhere", ProblemSHA256: m.Provenance.ProblemSHA256}
	of := require.Get(m.Replaced(m.Parameters(), by))(t)
	if of.Provenance.Command != "elsewhere" || of.Case != m.Case || of.Calibration.TauGeom != m.Calibration.TauGeom || !slices.Equal(of.DecoderU.Layers[1].B, m.DecoderU.Layers[1].B) || !slices.Equal(of.Codes.Data, m.Codes.Data) {
		t.Errorf("%+v", of)
	}
	narrow := slices.Clone(m.Parameters())
	narrow[0].Shape = []int{narrow[0].Shape[0], narrow[0].Shape[1] - 1}
	narrow[0].Data = narrow[0].Data[:narrow[0].Shape[0]*narrow[0].Shape[1]]
	for says, tensors := range map[string][]model.Parameter{
		"encoder_x.0.weight is missing": m.Parameters()[1:],
		`unknown tensor "wind"`:         append(m.Parameters(), model.Parameter{Name: "wind", Shape: []int{1}, Data: []float32{1}}),
		"twice":                         append(m.Parameters(), m.Parameters()[0]),
		"normalisation":                 narrow,
	} {
		if _, err := m.Replaced(tensors, by); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one with %q", err, says)
		}
	}
}
