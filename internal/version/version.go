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

// Module returns the version of the module of that path that this program was built of,
// and whether it is a published one, that other modules can require: a checkout, or what
// replaces a module, has Version.
func Module(path string) (version string, published bool) {
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Path == path && info.Main.Sum != "" { // go install PATH@VERSION
		return info.Main.Version, true
	}
	if ok {
		for _, m := range info.Deps {
			if m.Path == path && m.Replace == nil && m.Sum != "" {
				return m.Version, true
			}
		}
	}
	return "v" + Version, false
}
