package domain

import "encoding/json"

// Changing is implemented by episodes whose plant a person may change while they run, such as a load
// or the place of an obstacle.
type Changing interface {
	// Changes names the fields that Change takes, one in a call.
	Changes() []string
	// Change is the scene, in the form that Stage of the plant reads, of an episode that begins where
	// this one stands, with what one field of an object says. What cannot be is an error that names it;
	// the episode itself stays as it is.
	Change(change json.RawMessage) (Change, error)
}

// Change is a change of a plant that runs.
type Change struct {
	About string // in a line
	Scene any    // see Changing.Change
	// Params are the fields of Plant.Params with which Case.Remake makes the changed plant; nil: the plant is
	// the same, and the scene alone is another.
	Params any
}
