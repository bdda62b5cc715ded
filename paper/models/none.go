//go:build nomodels

package models

import "embed"

// Bundled is empty: this build carries no maps.
var Bundled embed.FS
