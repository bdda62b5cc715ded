package domain

import (
	"fmt"
	"math"
)

// Role is what a Shape is.
type Role uint8

const (
	// Body moves under control. The centre of a disc leaves a trail.
	Body Role = iota
	// Obstacle is what must not be touched.
	Obstacle
	// Goal is where a body is to come to.
	Goal
	// Ground is what bodies stand on, hang from or are linked to.
	Ground
)

// Shape is a line or a disc. A line that ends where it begins is filled.
type Shape struct {
	Role   Role
	Path   [][2]float64 // vertices of a line; the centre of a disc
	Radius float64      // of a disc; a line has none
	// Of is the number of the body: shapes of one number share a colour, and a goal is that
	// of the body of its number.
	Of int
	// Heading of a body, rad from the first axis; 0 for what has none.
	Heading float64
	// View names the projection that a shape is drawn in, such as "from above", where a picture has several; "": it has one.
	View string
}

// Validate says what a shape cannot be: without a place, at one that is not finite, a disc of
// no size, a line with one.
func (s *Shape) Validate() error {
	if line := len(s.Path) > 1; len(s.Path) == 0 || line && s.Radius != 0 || !line && !(s.Radius > 0) || math.IsInf(s.Radius, 0) {
		return fmt.Errorf("shape has %d points and the radius %v, want a line of two points or more without, or a disc of one with", len(s.Path), s.Radius)
	}
	for _, p := range s.Path {
		if math.IsNaN(p[0]+p[1]) || math.IsInf(p[0]+p[1], 0) || s.Of < 0 {
			return fmt.Errorf("shape of body %d has a point at %v, want a body ≥ 0 and finite points", s.Of, p)
		}
	}
	return nil
}

// Line is a line through vertices.
func Line(role Role, path ...[2]float64) Shape { return Shape{Role: role, Path: path} }

// Disc is a disc about a centre.
func Disc(role Role, x, y, radius float64) Shape {
	return Shape{Role: role, Path: [][2]float64{{x, y}}, Radius: radius}
}

// Box is a filled rectangle about a centre.
func Box(role Role, x, y, width, height float64) Shape {
	w, h := width/2, height/2
	return Line(role, [2]float64{x - w, y - h}, [2]float64{x + w, y - h}, [2]float64{x + w, y + h}, [2]float64{x - w, y + h}, [2]float64{x - w, y - h})
}
