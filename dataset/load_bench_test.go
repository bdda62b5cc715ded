package dataset

import "testing"

func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	opt := options(dir)
	opt.Scenarios, opt.Chunk, opt.Weights.Count = 10000, 64, 9
	generate(b, opt)
	d, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(d.Rows()), "rows")
	b.Run("load", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(d.Rows()) * d.Header.Layout.rowBytes())
		for range b.N {
			if _, _, _, err := Load(d); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.SetBytes(int64(d.Rows()) * d.Header.Layout.rowBytes())
		for range b.N {
			if err := d.Verify(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
