package recording

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// The messages of Foxglove's published schemas, with the fields that they require.

type stamp struct {
	Sec  int `json:"sec"`
	Nsec int `json:"nsec"`
}

func stampOf(ns uint64) stamp { return stamp{int(ns / 1e9), int(ns % 1e9)} }

type vector3 struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
	Z float64 `json:"z"`
}

type quaternion struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
	Z float64 `json:"z"`
	W float64 `json:"w"`
}

// turned is a rotation about the third axis.
func turned(angle float64) quaternion {
	sin, cos := math.Sincos(angle / 2)
	return quaternion{Z: sin, W: cos}
}

type pose struct {
	Position    vector3    `json:"position"`
	Orientation quaternion `json:"orientation"`
}

// upright is a place without rotation.
func upright(x, y, z float64) pose { return pose{vector3{x, y, z}, turned(0)} }

type colour struct {
	R float64 `json:"r"`
	G float64 `json:"g"`
	B float64 `json:"b"`
	A float64 `json:"a"`
}

type keyValue struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type cylinder struct {
	Pose   pose    `json:"pose"`
	Size   vector3 `json:"size"`
	Bottom float64 `json:"bottom_scale"`
	Top    float64 `json:"top_scale"`
	Color  colour  `json:"color"`
}

type line struct {
	Type      int       `json:"type"`
	Pose      pose      `json:"pose"`
	Thickness float64   `json:"thickness"`
	Invariant bool      `json:"scale_invariant"`
	Points    []vector3 `json:"points"`
	Color     colour    `json:"color"`
	Colors    []colour  `json:"colors"`
	Indices   []int     `json:"indices"`
}

// Types of a line.
const (
	lineStrip = 0
	lineList  = 2
)

type label struct {
	Pose      pose    `json:"pose"`
	Billboard bool    `json:"billboard"`
	Size      float64 `json:"font_size"`
	Invariant bool    `json:"scale_invariant"`
	Color     colour  `json:"color"`
	Text      string  `json:"text"`
}

type entity struct {
	Time      stamp      `json:"timestamp"`
	Frame     string     `json:"frame_id"`
	ID        string     `json:"id"`
	Lifetime  stamp      `json:"lifetime"`
	Locked    bool       `json:"frame_locked"`
	Metadata  []keyValue `json:"metadata"`
	Arrows    []struct{} `json:"arrows"`
	Cubes     []struct{} `json:"cubes"`
	Spheres   []struct{} `json:"spheres"`
	Cylinders []cylinder `json:"cylinders"`
	Lines     []line     `json:"lines"`
	Triangles []struct{} `json:"triangles"`
	Texts     []label    `json:"texts"`
	Models    []struct{} `json:"models"`
}

// newEntity is an entity with nothing in it: lists that are empty, none that is null.
func newEntity(ns uint64, frame, id string) entity {
	none := []struct{}{}
	return entity{
		Time: stampOf(ns), Frame: frame, ID: id, Locked: frame != world, Metadata: []keyValue{},
		Arrows: none, Cubes: none, Spheres: none, Cylinders: []cylinder{}, Lines: []line{}, Triangles: none, Texts: []label{}, Models: none,
	}
}

type deletion struct {
	Time stamp  `json:"timestamp"`
	Type int    `json:"type"`
	ID   string `json:"id"`
}

// everything is the type of a deletion of all entities.
const everything = 1

type sceneUpdate struct {
	Deletions []deletion `json:"deletions"`
	Entities  []entity   `json:"entities"`
}

type frameTransform struct {
	Time        stamp      `json:"timestamp"`
	Parent      string     `json:"parent_frame_id"`
	Child       string     `json:"child_frame_id"`
	Translation vector3    `json:"translation"`
	Rotation    quaternion `json:"rotation"`
}

type frameTransforms struct {
	Transforms []frameTransform `json:"transforms"`
}

// world is the frame that everything is in.
const world = "world"

// roles are what shapes of each role are called and how they look.
var roles = map[domain.Role]struct {
	name   string
	colour colour
	height float64 // of a disc, m
}{
	domain.Body:     {"body", colour{0.12, 0.47, 0.71, 1}, 0.3},
	domain.Obstacle: {"obstacle", colour{0.55, 0.55, 0.55, 0.8}, 0.3},
	domain.Goal:     {"goal", colour{0.17, 0.63, 0.17, 0.35}, 0.02},
	domain.Ground:   {"ground", colour{0.4, 0.4, 0.4, 1}, 0.02},
}

// bodies are the colours of bodies and goals by their number, those of Okabe and Ito.
var bodies = []colour{
	{0, 0.45, 0.70, 1}, {0.90, 0.62, 0, 1}, {0, 0.62, 0.45, 1}, {0.80, 0.47, 0.65, 1}, {0.84, 0.37, 0, 1}, {0.34, 0.71, 0.91, 1}, {0.94, 0.89, 0.26, 1},
}

// lookOf is the colour of a shape.
func lookOf(s *domain.Shape) colour {
	c := roles[s.Role].colour
	if s.Role == domain.Body || s.Role == domain.Goal {
		alpha := c.A
		c = bodies[s.Of%len(bodies)]
		c.A = alpha
	}
	return c
}

// loaded is the colour of a share of a limit: green at rest, yellow at 0.85, red from 1 on.
func loaded(share float64) colour {
	const near = 0.85
	switch {
	case !(share < 1): // or no number
		return colour{0.84, 0.10, 0.11, 1}
	case share < near:
		return colour{0.10 + 0.85*share/near, 0.60 + 0.20*share/near, 0.25 * (1 - share/near), 1}
	}
	return colour{0.95, 0.80 * (1 - share) / (1 - near), 0, 1}
}
