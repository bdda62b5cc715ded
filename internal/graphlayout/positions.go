// Package graphlayout finds where the buses of a network stand on a map, which case files do not say.
//
// The central function is Of: stress majorization (Gansner, Koren and North, “Graph drawing by
// stress majorization”, 2004). Distances on the map are to be those along the branches, each
// weighed by its inverse square. It starts at the distances from three buses far apart, so
// that the same network always has the same map.
package graphlayout

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
)

const (
	stressRounds = 300
	// stressWork bounds rounds × buses².
	stressWork = 3e8
)

// Of finds a position for each of n buses; neighbours are about 1 apart, and the longest extent
// lies along the first axis.
func Of(n int, branches []domain.ChartBranch) [][2]float64 {
	if n == 0 {
		return nil
	}
	d := distances(n, branches)
	at := make([][2]float64, n)
	a := farthest(d[0])
	b := farthest(d[a])
	between := make([]float64, n)
	for i := range between {
		between[i] = min(d[a][i], d[b][i])
	}
	c := farthest(between)
	for i := range at {
		// Buses at the same distances are set apart by a little that tells them from each other.
		turn := 2.399963 * float64(i)
		at[i] = [2]float64{d[a][i] - d[b][i] + 0.1*math.Cos(turn), 2*d[c][i] - d[a][i] - d[b][i] + 0.1*math.Sin(turn)}
	}
	for range int(min(stressRounds, max(10, stressWork/float64(n*n)))) {
		relax(at, d)
	}
	turn(at)
	return at
}

// relax moves every bus to where the others would have it.
func relax(at [][2]float64, d [][]float64) {
	for i := range at {
		var x, y, sum float64
		for j := range at {
			if i == j {
				continue
			}
			dx, dy := at[i][0]-at[j][0], at[i][1]-at[j][1]
			w, stretch := 1/(d[i][j]*d[i][j]), d[i][j]/max(math.Sqrt(dx*dx+dy*dy), 1e-9)
			x, y, sum = x+w*(at[j][0]+stretch*dx), y+w*(at[j][1]+stretch*dy), sum+w
		}
		if sum > 0 {
			at[i] = [2]float64{x / sum, y / sum}
		}
	}
}

// turn lays the longest extent along the first axis.
func turn(at [][2]float64) {
	var mx, my, xx, xy, yy float64
	for _, p := range at {
		mx, my = mx+p[0]/float64(len(at)), my+p[1]/float64(len(at))
	}
	for _, p := range at {
		dx, dy := p[0]-mx, p[1]-my
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	sin, cos := math.Sincos(math.Atan2(2*xy, xx-yy) / 2)
	for i, p := range at {
		at[i] = [2]float64{cos*p[0] + sin*p[1], cos*p[1] - sin*p[0]}
	}
}

// distances are those along the branches, in branches; between islands that of the farthest
// buses and one.
func distances(n int, branches []domain.ChartBranch) [][]float64 {
	next := make([][]int, n)
	for _, b := range branches {
		next[b.From], next[b.To] = append(next[b.From], b.To), append(next[b.To], b.From)
	}
	d := make([][]float64, n)
	longest := 0.0
	for i := range d {
		d[i] = make([]float64, n)
		for j := range d[i] {
			d[i][j] = math.Inf(1)
		}
		d[i][i] = 0
		queue := []int{i}
		for at := 0; at < len(queue); at++ {
			for _, j := range next[queue[at]] {
				if math.IsInf(d[i][j], 1) {
					d[i][j] = d[i][queue[at]] + 1
					longest = max(longest, d[i][j])
					queue = append(queue, j)
				}
			}
		}
	}
	for i := range d {
		for j := range d[i] {
			d[i][j] = min(d[i][j], longest+1)
		}
	}
	return d
}

func farthest(d []float64) (at int) {
	for i, v := range d {
		if v > d[at] {
			at = i
		}
	}
	return at
}
