package estimate

// Most is how far each entry may be off its estimate, of a filter with stated bounds.
func (f *Filter) Most() []float64 {
	most := make([]float64, f.n)
	for i := range most {
		h := make([]float64, f.n)
		h[i] = 1
		most[i] = f.set.most(h, make([]float64, f.n))
	}
	return most
}
