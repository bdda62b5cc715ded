package train

import (
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/tensor"
)

// chooseCodes picks at most count rows of points as M*, ascending: half by
// farthest-first traversal, so that no part of the manifold is far from a code,
// and half at random, so that where samples are dense codes are too (the local
// affine refinement is most accurate there). All rows when there are no more
// than count, or count is 0.
func chooseCodes(points tensor.Matrix, count int, seed uint64) []int32 {
	all := ascending(points.Rows)
	if count == 0 || points.Rows <= count {
		return all
	}
	chosen := cover(points, (count+1)/2)
	taken := make([]bool, points.Rows)
	for _, c := range chosen {
		taken[c] = true
	}
	rest := all[:0]
	for i := range points.Rows {
		if !taken[i] {
			rest = append(rest, int32(i))
		}
	}
	rng := rand.New(rand.NewPCG(seed, streamCodes))
	for need := count - len(chosen); need > 0; need-- {
		k := rng.IntN(len(rest))
		chosen = append(chosen, rest[k])
		rest[k] = rest[len(rest)-1]
		rest = rest[:len(rest)-1]
	}
	slices.Sort(chosen)
	return chosen
}

// cover is farthest-first traversal (Gonzalez 1985; its radius is at most twice
// the best possible): each next centre is the point farthest from those chosen.
// It starts from row 0, and ends early when every point coincides with a
// centre. A cluster whose radius is at most half its centre's distance to the
// new one cannot lose a member and is not scanned, by the triangle inequality.
func cover(points tensor.Matrix, count int) []int32 {
	type cluster struct {
		centre   int32
		members  []int32
		farthest int32
		radius2  float32
	}
	distance2 := make([]float32, points.Rows)
	measure := func(c *cluster) {
		c.radius2, c.farthest = 0, c.centre
		for _, m := range c.members {
			if distance2[m] > c.radius2 {
				c.radius2, c.farthest = distance2[m], m
			}
		}
	}
	first := cluster{members: ascending(points.Rows)}
	for i := range points.Rows {
		distance2[i] = squaredDistance(points.Row(0), points.Row(i))
	}
	measure(&first)
	clusters := append(make([]cluster, 0, count), first)
	for len(clusters) < count {
		widest := 0
		for k := range clusters {
			if clusters[k].radius2 > clusters[widest].radius2 {
				widest = k
			}
		}
		if clusters[widest].radius2 == 0 {
			break
		}
		next := cluster{centre: clusters[widest].farthest}
		at := points.Row(int(next.centre))
		for k := range clusters {
			c := &clusters[k]
			if squaredDistance(at, points.Row(int(c.centre))) >= 4*c.radius2 {
				continue
			}
			kept := c.members[:0]
			for _, m := range c.members {
				if d := squaredDistance(at, points.Row(int(m))); d < distance2[m] {
					distance2[m] = d
					next.members = append(next.members, m)
				} else {
					kept = append(kept, m)
				}
			}
			if len(kept) < len(c.members) {
				c.members = kept
				measure(c)
			}
		}
		measure(&next)
		clusters = append(clusters, next)
	}
	chosen := make([]int32, len(clusters))
	for k := range clusters {
		chosen[k] = clusters[k].centre
	}
	return chosen
}

func squaredDistance(a, b []float32) float32 {
	sum := float32(0)
	for i, v := range a {
		d := v - b[i]
		sum += d * d
	}
	return sum
}
