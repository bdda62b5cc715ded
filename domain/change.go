package domain

// Change is a change of a plant that runs.
type Change struct {
	About string // in a line
	Scene any    // in the form that Stage of the plant reads
	// Params are the fields of Plant.Params with which Case.Remake makes the changed plant; nil: the plant is
	// the same, and the scene alone is another.
	Params any
}
