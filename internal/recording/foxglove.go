package recording

import (
	"math"
	"reflect"

	"github.com/gpc-engine/gpc/domain"
)

// The messages of Foxglove's published schemas, by their numbers, with the fields that are used and,
// empty, those that viewers may ask for.

type stamp struct {
	Sec  int64 `pb:"1,seconds"`
	Nsec int32 `pb:"2,nanos"`
}

func stampOf(ns uint64) stamp { return stamp{int64(ns / 1e9), int32(ns % 1e9)} }

// span is a length of time.
type span stamp

type vector3 struct {
	X float64 `pb:"1,x"`
	Y float64 `pb:"2,y"`
	Z float64 `pb:"3,z"`
}

type point3 vector3

type quaternion struct {
	X float64 `pb:"1,x"`
	Y float64 `pb:"2,y"`
	Z float64 `pb:"3,z"`
	W float64 `pb:"4,w"`
}

// rotation is a rotation about the third axis.
func rotation(angle float64) quaternion {
	sin, cos := math.Sincos(angle / 2)
	return quaternion{Z: sin, W: cos}
}

type pose struct {
	Position    vector3    `pb:"1,position"`
	Orientation quaternion `pb:"2,orientation"`
}

// upright is a place without rotation.
func upright(x, y, z float64) pose { return pose{vector3{x, y, z}, rotation(0)} }

type colour struct {
	R float64 `pb:"1,r"`
	G float64 `pb:"2,g"`
	B float64 `pb:"3,b"`
	A float64 `pb:"4,a"`
}

type keyValue struct {
	Key   string `pb:"1,key"`
	Value string `pb:"2,value"`
}

type cylinder struct {
	Pose   pose    `pb:"1,pose"`
	Size   vector3 `pb:"2,size"`
	Bottom float64 `pb:"3,bottom_scale"`
	Top    float64 `pb:"4,top_scale"`
	Color  colour  `pb:"5,color"`
}

type line struct {
	Type      lineType `pb:"1,type"`
	Pose      pose     `pb:"2,pose"`
	Thickness float64  `pb:"3,thickness"`
	Invariant bool     `pb:"4,scale_invariant"`
	Points    []point3 `pb:"5,points"`
	Color     colour   `pb:"6,color"`
	Colors    []colour `pb:"7,colors"`
}

type lineType int32

const (
	lineStrip lineType = 0
	lineList  lineType = 2
)

type label struct {
	Pose      pose    `pb:"1,pose"`
	Billboard bool    `pb:"2,billboard"`
	Size      float64 `pb:"3,font_size"`
	Invariant bool    `pb:"4,scale_invariant"`
	Color     colour  `pb:"5,color"`
	Text      string  `pb:"6,text"`
}

// Primitives that nothing here is drawn with.
type (
	arrow    struct{}
	cube     struct{}
	sphere   struct{}
	triangle struct{}
	model    struct{}
)

type entity struct {
	Time      stamp      `pb:"1,timestamp"`
	Frame     string     `pb:"2,frame_id"`
	ID        string     `pb:"3,id"`
	Lifetime  span       `pb:"4,lifetime"`
	Locked    bool       `pb:"5,frame_locked"`
	Metadata  []keyValue `pb:"6,metadata"`
	Arrows    []arrow    `pb:"7,arrows"`
	Cubes     []cube     `pb:"8,cubes"`
	Spheres   []sphere   `pb:"9,spheres"`
	Cylinders []cylinder `pb:"10,cylinders"`
	Lines     []line     `pb:"11,lines"`
	Triangles []triangle `pb:"12,triangles"`
	Texts     []label    `pb:"13,texts"`
	Models    []model    `pb:"14,models"`
}

// newEntity is an entity with nothing in it.
func newEntity(ns uint64, frame, id string) entity {
	return entity{Time: stampOf(ns), Frame: frame, ID: id, Locked: frame != world}
}

type deletion struct {
	Time stamp        `pb:"1,timestamp"`
	Type deletionType `pb:"2,type"`
	ID   string       `pb:"3,id"`
}

type deletionType int32

const everything deletionType = 1

type sceneUpdate struct {
	Deletions []deletion `pb:"1,deletions"`
	Entities  []entity   `pb:"2,entities"`
}

type frameTransform struct {
	Time        stamp      `pb:"1,timestamp"`
	Parent      string     `pb:"2,parent_frame_id"`
	Child       string     `pb:"3,child_frame_id"`
	Translation vector3    `pb:"4,translation"`
	Rotation    quaternion `pb:"5,rotation"`
}

type frameTransforms struct {
	Transforms []frameTransform `pb:"1,transforms"`
}

// names are those of the messages in their packages, known the full ones of what is imported.
var (
	names = map[reflect.Type]string{
		reflect.TypeFor[vector3](): "Vector3", reflect.TypeFor[point3](): "Point3", reflect.TypeFor[quaternion](): "Quaternion", reflect.TypeFor[pose](): "Pose",
		reflect.TypeFor[colour](): "Color", reflect.TypeFor[keyValue](): "KeyValuePair", reflect.TypeFor[cylinder](): "CylinderPrimitive", reflect.TypeFor[line](): "LinePrimitive",
		reflect.TypeFor[label](): "TextPrimitive", reflect.TypeFor[arrow](): "ArrowPrimitive", reflect.TypeFor[cube](): "CubePrimitive", reflect.TypeFor[sphere](): "SpherePrimitive",
		reflect.TypeFor[triangle](): "TriangleListPrimitive", reflect.TypeFor[model](): "ModelPrimitive", reflect.TypeFor[entity](): "SceneEntity",
		reflect.TypeFor[deletion](): "SceneEntityDeletion", reflect.TypeFor[sceneUpdate](): "SceneUpdate",
		reflect.TypeFor[frameTransform](): "FrameTransform", reflect.TypeFor[frameTransforms](): "FrameTransforms",
		reflect.TypeFor[episodeEnd](): "Episode", reflect.TypeFor[latency](): "Latency", reflect.TypeFor[monitor](): "Monitor",
	}
	wellKnown = map[reflect.Type]string{reflect.TypeFor[stamp](): ".google.protobuf.Timestamp", reflect.TypeFor[span](): ".google.protobuf.Duration"}
	enums     = map[reflect.Type][]string{
		reflect.TypeFor[lineType]():     {"LINE_STRIP", "LINE_LOOP", "LINE_LIST"},
		reflect.TypeFor[deletionType](): {"MATCHING_ID", "ALL"},
	}
)

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
	const nearLimit = 0.85
	switch {
	case !(share < 1): // or no number
		return colour{0.84, 0.10, 0.11, 1}
	case share < nearLimit:
		return colour{0.10 + 0.85*share/nearLimit, 0.60 + 0.20*share/nearLimit, 0.25 * (1 - share/nearLimit), 1}
	}
	return colour{0.95, 0.80 * (1 - share) / (1 - nearLimit), 0, 1}
}
