//go:build !nomodels

// Package models holds the maps of the gallery's systems that the program carries, as `make
// results-gallery` compiled them: what each reaches is recorded in lab/results.
package models

import "embed"

// Bundled holds CASE.safetensors for each system with a bundled map; none with the build tag
// nomodels.
//
//go:embed *.safetensors
var Bundled embed.FS
