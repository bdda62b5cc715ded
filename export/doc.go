// Package export writes trained maps and whole controllers as C99 without dependencies, for microcontrollers and
// programs in other languages. A map alone is the decision of the method `direct` before its projection, in float32
// and in static memory.
//
// Controller, Optimal and Search write whole controllers with their plants. C writes a map alone as a folder: the map's source and header, its
// parameters, and a program that holds both to recorded decisions of this module
// (docs/how-to/export.md).
package export
