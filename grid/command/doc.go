// Package command adds power networks to a program's command line: the commands gpc pf and gpc opf, and the
// benchmarks opf, opf-sweep and dispatch.
package command
