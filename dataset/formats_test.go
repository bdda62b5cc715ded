package dataset

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/pages"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// docs/reference/formats.md has every column and key of a dataset, and none besides.
func TestFormatsPage(t *testing.T) {
	page := require.Get(pages.ReadKeys("../docs/reference/formats.md"))(t)
	header := Header{Layout: LayoutOf(testdomain.NewCart(4).Spec())}
	var part bytes.Buffer
	require.OK(t, encoded(&part, header, newColumns(header.Layout, 1)))
	file := require.Get(openParquet(bytes.NewReader(part.Bytes()), int64(part.Len())))(t)
	component := regexp.MustCompile(`_\d+$`)
	columns, metadata := map[string]bool{}, map[string]bool{}
	for _, c := range file.Root().Columns() {
		columns[component.ReplaceAllString(c.Name(), "_I")] = true
	}
	for _, kv := range file.Metadata().KeyValueMetadata {
		metadata[component.ReplaceAllString(kv.Key, "_I")] = true
	}
	for _, d := range slices.Concat(
		page.Against("part-NNNNNN.parquet", sorted(columns)), page.Against("part", sorted(metadata)),
		page.Differences("dataset.json", Header{}), page.Differences("part-NNNNNN.json", manifest{}),
	) {
		t.Error(d)
	}
}

func sorted(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }
