// Package command is what the networks of domains/opf add to a program's command
// line: gpc pf, gpc opf and the benchmarks opf, opf-sweep and dispatch.
package command
