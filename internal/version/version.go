// Package version names the build, for traces, models and benchmark records.
package version

import "runtime/debug"

// Version is the release this source leads to.
const Version = "0.1.0"

// Commit is the git commit, set by the Makefile at link time.
var Commit = ""

// Build returns the commit of the build, from the linker or from Go's own build
// information, or "unknown".
func Build() string {
	if Commit != "" {
		return Commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return s.Value[:12]
			}
		}
	}
	return "unknown"
}
