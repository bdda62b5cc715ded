package dual

import "embed"

// Source is this package's own: equations that call an integrator are read with it.
//
//go:embed dual.go explicit.go lu.go radau.go rk4.go source.go
var Source embed.FS
