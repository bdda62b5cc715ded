package neighbours

import "math"

// Query is one search of a tile: what to look for, and the results.
type Query struct {
	// Point has Index.Dim coordinates. It is kept until Search returns.
	Point []float32
	// Accept says whether a point may be among the results; nil accepts all. It
	// is asked only for points that would enter the results so far, and must give
	// the same answer whenever it is asked about the same point.
	Accept func(id int32) bool
	// MaxRejected ends the search, with Complete false, once Accept has refused
	// more points than this; 0 is no limit.
	MaxRejected int

	// IDs and Dist2 have the length k of the number of results wanted and receive
	// the nearest accepted points in ascending (distance, id) order.
	IDs   []int32
	Dist2 []float32
	// Count is the number of results, less than k where fewer points are
	// accepted, and 0 for a point that is not finite. Entries beyond it are not
	// meaningful.
	Count int
	// Complete is false if the search ended by MaxRejected; the results are then
	// not meaningful.
	Complete bool
}

// Searcher is a workspace for searches by one goroutine at a time. Once warm it
// allocates nothing.
type Searcher struct {
	ix        *Index
	probes    [TileSize]probe
	list      [LeafSize]int32
	dist2     [LeafSize]float32
	masks     [LeafSize / blockSize]uint32
	projected [mostAxes]float32
	bytes     []uint8
	errors    [2]float32 // ρ², e_q²/h² of the query on a leaf's grid
	sums      [2]int32   // Σ q̂_j, Σ q̂_j²
}

// probe is the state of one query of a tile.
type probe struct {
	query  *Query
	point  []float32 // [stride], padded with zeros
	bounds []float32 // lower bound of the distance to each leaf

	// report, if not nil, replaces the list of nearest: it receives every point
	// not farther than the fixed radius² limit2.
	report func(id int32, dist2 float32)
	limit2 float32

	slack    float64 // of the bounds
	reach    float32 // leaves with a bound above it are skipped
	reach2   float64 // its square, as the filter uses it
	rejected int
	stopped  bool
}

// NewSearcher returns a workspace for the index.
func (ix *Index) NewSearcher() *Searcher {
	s := &Searcher{ix: ix, bytes: make([]uint8, max(ix.stride, ix.groups*4))}
	padded := roundUp(len(ix.leaves), lanes)
	points := make([]float32, TileSize*ix.stride)
	bounds := make([]float32, TileSize*padded)
	for i := range s.probes {
		s.probes[i].point = points[i*ix.stride:][:ix.stride]
		s.probes[i].bounds = bounds[i*padded:][:padded]
	}
	return s
}

// Search answers all queries. Those near each other in the slice share the
// leaves they visit, up to TileSize at a time.
func (s *Searcher) Search(queries []Query) {
	for len(queries) > 0 {
		n := min(len(queries), TileSize)
		tile := s.probes[:n]
		for i := range tile {
			tile[i].query = &queries[i]
			tile[i].report = nil
			s.begin(&tile[i], queries[i].Point)
		}
		s.sweep(tile)
		for i := range tile {
			queries[i].Complete = !tile[i].stopped
			tile[i].query = nil
		}
		queries = queries[n:]
	}
}

// Within calls visit for every point with ‖point − c‖² ≤ radius2, once each, in
// no particular order: none if radius2 is NaN or point is not finite.
func (s *Searcher) Within(point []float32, radius2 float32, visit func(id int32, dist2 float32)) {
	p := &s.probes[0]
	p.report, p.limit2 = visit, radius2
	s.begin(p, point)
	s.sweep(s.probes[:1])
	p.report = nil
}

// Distance is ‖point − c‖² for point id, the distance of every search. It must
// not be called from a callback of this same Searcher.
func (s *Searcher) Distance(point []float32, id int32) float32 {
	ix := s.ix
	p := &s.probes[0]
	copy(p.point, point)
	s.list[0] = ix.position[id]
	ix.kernel.distances(&p.point[0], &ix.rows[0], ix.stride/lanes, &s.list[0], 1, &s.dist2[0])
	return s.dist2[0]
}

// begin starts a search: bounds of all leaves, then a visit to the most
// promising ones, after which the reach is near its final value.
func (s *Searcher) begin(p *probe, point []float32) {
	ix := s.ix
	copy(p.point, point)
	p.rejected, p.stopped = 0, false
	p.reach, p.reach2 = float32(math.Inf(1)), math.Inf(1)
	if q := p.query; p.report == nil {
		q.Count = 0
		if len(q.IDs) == 0 {
			p.reach = float32(math.Inf(-1))
			return
		}
	}
	switch largest := magnitude(point); {
	case math.IsInf(float64(largest), 1):
		p.reach = float32(math.Inf(-1))
		return
	case largest > maxQuery:
		s.scan(p)
		p.reach = float32(math.Inf(-1))
		return
	}
	p.slack = ix.bound(p.point[:ix.dim], &s.projected, p.bounds)
	if p.report != nil {
		p.setReach(ix, p.limit2)
	}
	if p.report == nil {
		s.openNearest(p)
	}
}

// openLeaves is the number of leaves of least bound that are visited first.
const openLeaves = 4

// openNearest visits the leaves of least bound and strikes them off.
func (s *Searcher) openNearest(p *probe) {
	bounds := p.bounds[:len(s.ix.leaves)]
	var best [openLeaves]int
	n := 0
	limit := float32(math.Inf(1))
	for i, b := range bounds {
		if n == openLeaves && b >= limit {
			continue
		}
		if n < openLeaves {
			n++
		}
		j := n - 1
		for ; j > 0 && b < bounds[best[j-1]]; j-- {
			best[j] = best[j-1]
		}
		best[j] = i
		limit = bounds[best[n-1]]
	}
	for _, i := range best[:n] {
		if bounds[i] <= p.reach && !p.stopped {
			s.visit(p, i)
		}
		bounds[i] = float32(math.Inf(1))
	}
	// A struck-off leaf must stay so while the reach is still infinite.
	if math.IsInf(float64(p.reach), 1) {
		p.reach = math.MaxFloat32
	}
}

// sweep visits every leaf that is left for each probe, a few leaves for all
// probes before the next, so that probes near each other find them in cache.
func (s *Searcher) sweep(tile []probe) {
	leaves := len(s.ix.leaves)
	for from := 0; from < leaves; from += lanes {
		to := min(from+lanes, leaves)
		for i := range tile {
			p := &tile[i]
			if p.stopped {
				continue
			}
			for l := from; l < to; l++ {
				if p.bounds[l] <= p.reach {
					s.visit(p, l)
					if p.stopped {
						break
					}
				}
			}
		}
	}
}

// visit measures the points of a leaf that may be within reach.
func (s *Searcher) visit(p *probe, number int) {
	ix := s.ix
	l := &ix.leaves[number]
	var list []int32
	if math.IsInf(p.reach2, 1) {
		list = s.list[:l.count]
		for i := range list {
			list[i] = l.start + int32(i)
		}
	} else {
		box := number * ix.stride
		ix.kernel.quantize(&p.point[0], &ix.lo[box], &ix.hi[box], ix.stride/lanes, l.inverse, &s.bytes[0], &s.errors[0], &s.sums[0])
		remaining := p.reach2 - float64(s.errors[0])*(1-ix.gamma)
		if remaining < 0 {
			return
		}
		// e_q, with the rounding of (q' − lo)/h: 127·3 half-ulps a coordinate.
		eq := math.Sqrt(float64(s.errors[1])) + 5e-5*math.Sqrt(float64(ix.dim))
		t := (math.Sqrt(remaining)+l.err)/l.step + eq
		threshold := int32(min(t*t*(1+1e-6)+1, 1<<28))
		limit := threshold - s.sums[1] + 2*levelMid*s.sums[0]
		blocks := (int(l.count) + blockSize - 1) / blockSize
		ix.kernel.filter(&s.bytes[0], &ix.packed[int(l.start)*ix.groups*4], &ix.norms[l.start], ix.groups, blocks, limit, &s.masks[0])
		list = survivors(s.masks[:blocks], l.start, s.list[:0])
		if len(list) == 0 {
			return
		}
	}
	ix.kernel.distances(&p.point[0], &ix.rows[0], ix.stride/lanes, &list[0], len(list), &s.dist2[0])
	s.offer(p, list)
}

// offer gives the measured points at the listed positions to the probe.
func (s *Searcher) offer(p *probe, list []int32) {
	ix := s.ix
	if p.report != nil {
		for i, position := range list {
			if s.dist2[i] <= p.limit2 {
				p.report(ix.ids[position], s.dist2[i])
			}
		}
		return
	}
	q := p.query
	k := len(q.IDs)
	improved := false
	for i, position := range list {
		d, id := s.dist2[i], ix.ids[position]
		if q.Count == k && !closer(d, id, q.Dist2[k-1], q.IDs[k-1]) {
			continue
		}
		if q.Accept != nil && !q.Accept(id) {
			p.rejected++
			if q.MaxRejected > 0 && p.rejected > q.MaxRejected {
				p.stopped = true
				return
			}
			continue
		}
		if q.Count < k {
			q.Count++
		}
		j := q.Count - 1
		for ; j > 0 && closer(d, id, q.Dist2[j-1], q.IDs[j-1]); j-- {
			q.Dist2[j], q.IDs[j] = q.Dist2[j-1], q.IDs[j-1]
		}
		q.Dist2[j], q.IDs[j] = d, id
		improved = true
	}
	if improved && q.Count == k {
		p.setReach(ix, q.Dist2[k-1])
	}
}

// closer is the order of results: by distance, then by number.
func closer(d float32, id int32, other float32, otherID int32) bool {
	return d < other || d == other && id < otherID
}

// magnitude is the largest |coordinate|, +Inf if one is not finite.
func magnitude(point []float32) float32 {
	largest := float32(0)
	for _, v := range point {
		if !(v-v == 0) {
			return float32(math.Inf(1))
		}
		largest = max(largest, v, -v)
	}
	return largest
}

// setReach sets how far a point can be whose float32 distance is at most
// dist2: a relative error, and an absolute one for products that underflow.
func (p *probe) setReach(ix *Index, dist2 float32) {
	d := math.Sqrt(float64(dist2))*(1+ix.gamma) + 1e-18
	p.reach2 = d * d
	p.reach = ix.reach(dist2, p.slack)
}

// reach is the largest bound of a leaf that may hold a point of this float32 distance²
// from one with this slack.
func (ix *Index) reach(dist2 float32, slack float64) float32 {
	return math.Nextafter32(float32(math.Sqrt(float64(dist2))*(1+ix.gamma)+slack+1e-18), float32(math.Inf(1)))
}

// bound writes a lower bound, up to the slack that comes back, of the distance from a
// point to those of each leaf, and in along its coordinates along the principal axes.
func (ix *Index) bound(point []float32, projected *[mostAxes]float32, bounds []float32) (slack float64) {
	p := ix.principal
	ix.kernel.project(&point[0], &p.mean[0], &p.directions[0], ix.dim, &projected[0])
	ix.kernel.boxes(&projected[0], p.axes, &ix.low[0], &ix.high[0], len(bounds)/lanes, float32(1-ix.gamma), &bounds[0])
	return p.slack(magnitude(point))
}

// scan measures every point: the search of a query that no bound can handle.
func (s *Searcher) scan(p *probe) {
	for i := range s.ix.leaves {
		l := &s.ix.leaves[i]
		list := s.list[:l.count]
		for j := range list {
			list[j] = l.start + int32(j)
		}
		s.ix.kernel.distances(&p.point[0], &s.ix.rows[0], s.ix.stride/lanes, &list[0], len(list), &s.dist2[0])
		s.offer(p, list)
		if p.stopped {
			return
		}
	}
}
