// Package grid is the library for power systems: case files, networks in per unit, AC power
// flow, every single outage, and AC optimal power flow, one or thousands. It stands alone: nothing below it
// imports the control engine, and a dispatch that is steered (paper/opf) is built on it.
//
// The packages, in the order in which they are used:
//
//	matpower         MATPOWER case files, read and written; matpower/cases has nine networks
//	network          a case in per unit, numbered from 0: admittances, flows, costs, outages of branches
//	powerflow        Newton's method with warm factorisations and reactive limits; outages one by one
//	acopf            the optimal power flow by an interior point, and many of them in the lanes of vectors
//	acopf/laneflow   several power flows at once in the lanes of vectors
//	series           optimal power flows along a series of loads, from CSV or parquet to parquet
//	ppc              networks that other programs hold as PYPOWER's arrays
//
// Powers are in per unit of a network's base, angles in radians, costs in $/h.
package grid
