//go:build !nomodels

// Package models holds the trained maps that the program carries. How each was
// made is in its own metadata (gpc cases and the model file's header name the
// command and the seed); `lab/run models` makes them again.
package models

import "embed"

// Bundled holds CASE.safetensors for each case with a bundled model; none with
// the build tag nomodels.
//
//go:embed *.safetensors
var Bundled embed.FS
