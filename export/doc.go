// Package export writes a trained map as C99 that depends on nothing, for a
// microcontroller or a program in another language: the decision of the method
// `direct` before its projection, in float32 and in static memory.
//
// The central function is C, which writes a folder: the map's source and header, its
// parameters, and a program that holds both to recorded decisions of this module
// (docs/how-to/export.md).
package export
