// Package unionfind tells the connected parts of a graph.
//
// Its central type is Sets.
package unionfind

// Sets are the numbers from 0 on, each in a part of its own until Join: an entry is another
// number of the same part, or the number itself where it stands for the part.
type Sets []int

// New makes n parts of one number each.
func New(n int) Sets {
	s := make(Sets, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// Root is the number that stands for the part of i until its next Join.
func (s Sets) Root(i int) int {
	for s[i] != i {
		s[i] = s[s[i]]
		i = s[i]
	}
	return i
}

// Join makes one part of those of i and j.
func (s Sets) Join(i, j int) { s[s.Root(i)] = s.Root(j) }
