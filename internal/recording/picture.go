package recording

import (
	"fmt"
	"math"
	"strings"

	"github.com/gpc-engine/gpc/domain"
)

// pictured are the entities of a problem's picture, and the frames of its bodies' discs, which
// those are drawn in.
func pictured(shapes []domain.Shape, ns uint64) (entities []entity, frames []frameTransform, err error) {
	discs := map[int]int{}
	for _, s := range shapes {
		if s.Role == domain.Body && len(s.Path) == 1 {
			discs[s.Of]++
		}
	}
	for i := range shapes {
		s := &shapes[i]
		if err := s.Validate(); err != nil {
			return nil, nil, fmt.Errorf("shape %d: %w", i, err)
		}
		role, frame := roles[s.Role], world
		id := fmt.Sprintf("%s %d", role.name, i)
		place := [2]float64{}
		if len(s.Path) == 1 {
			place = s.Path[0]
		}
		if s.Role == domain.Body && len(s.Path) == 1 {
			if id = fmt.Sprintf("%s %d", role.name, s.Of); discs[s.Of] > 1 {
				id = fmt.Sprintf("%s %d.%d", role.name, s.Of, i)
			}
			frame = id
			frames = append(frames, frameTransform{stampOf(ns), world, frame, vector3{place[0], place[1], 0}, rotation(s.Heading)})
			place = [2]float64{}
		}
		e := newEntity(ns, frame, id)
		if len(s.Path) == 1 {
			e.Cylinders = append(e.Cylinders, cylinder{
				Pose: upright(place[0], place[1], role.height/2), Size: vector3{2 * s.Radius, 2 * s.Radius, role.height}, Bottom: 1, Top: 1, Color: lookOf(s),
			})
			if s.Heading != 0 {
				e.Lines = append(e.Lines, strip(lookOf(s), role.height, [2]float64{}, [2]float64{1.5 * s.Radius, 0}))
			}
		} else {
			e.Lines = append(e.Lines, strip(lookOf(s), 0, s.Path...))
		}
		entities = append(entities, e)
	}
	return entities, frames, nil
}

// strip is a line through points.
func strip(c colour, z float64, path ...[2]float64) line {
	l := line{Type: lineStrip, Pose: upright(0, 0, 0), Thickness: 2, Invariant: true, Color: c}
	for _, p := range path {
		l.Points = append(l.Points, point3{p[0], p[1], z})
	}
	return l
}

// busSize is the diameter of a bus, of neighbours that are about 1 apart.
const busSize = 0.25

// charted are the entities of a network at an operating point: one of all branches, coloured by
// what they carry of their rating, and one for each bus with its name, coloured by how far its
// voltage is from the middle of its limits.
func charted(c *domain.Chart, positions [][2]float64, p *domain.OperatingPoint, ns uint64) []entity {
	all := newEntity(ns, world, "branches")
	l := line{Type: lineList, Pose: upright(0, 0, 0), Thickness: 4, Invariant: true, Color: loaded(0)}
	var loadings []string
	for k, b := range c.Branches {
		loading := p.S[k] / b.Rate // 0 without a rating, which is infinite
		for _, i := range []int{b.From, b.To} {
			l.Points = append(l.Points, point3{positions[i][0], positions[i][1], 0})
			l.Colors = append(l.Colors, loaded(loading))
		}
		loadings = append(loadings, fmt.Sprintf("%.4f", loading))
	}
	all.Lines = append(all.Lines, l)
	all.Metadata = append(all.Metadata, keyValue{"loading", strings.Join(loadings, " ")})
	entities := []entity{all}
	for i, b := range c.Buses {
		deviation := 0.0
		if half := (b.VMax - b.VMin) / 2; half > 0 {
			deviation = math.Abs(p.V[i]-b.VMin-half) / half
		}
		e := newEntity(ns, world, "bus "+b.Name)
		x, y := positions[i][0], positions[i][1]
		e.Cylinders = append(e.Cylinders, cylinder{Pose: upright(x, y, 0), Size: vector3{busSize, busSize, busSize / 2}, Bottom: 1, Top: 1, Color: loaded(deviation)})
		e.Texts = append(e.Texts, label{Pose: upright(x, y, busSize), Billboard: true, Size: 12, Invariant: true, Color: colour{0.5, 0.5, 0.5, 1}, Text: b.Name})
		e.Metadata = append(e.Metadata, keyValue{"v", fmt.Sprintf("%.4f", p.V[i])})
		entities = append(entities, e)
	}
	return entities
}
