package unionfind

import "testing"

// TestParts: two numbers have one root exactly where a chain of joins leads from one to the
// other.
func TestParts(t *testing.T) {
	s := New(7)
	for _, edge := range [][2]int{{0, 1}, {2, 3}, {1, 3}, {4, 5}, {5, 4}, {3, 0}} {
		s.Join(edge[0], edge[1])
	}
	part := []int{0, 0, 0, 0, 1, 1, 2}
	for i := range part {
		for j := range part {
			if got, want := s.Root(i) == s.Root(j), part[i] == part[j]; got != want {
				t.Errorf("%d and %d in one part: %v, want %v", i, j, got, want)
			}
		}
	}
}
