// Package names suggests the known name that a mistyped one is closest to.
package names

import (
	"fmt"
	"strings"
)

// Meant is what an error about a word that is none of the known names says next:
// "; did you mean NAME?" of the nearest one, and "" where none is near.
func Meant[S ~string](word S, known []S) string {
	if near := Nearest(word, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// listed are the names that an error lists at most.
const listed = 8

// List is what an error says of the known names: the first of them, and how many more there are.
func List[S ~string](known []S) string {
	var text strings.Builder
	for i, name := range known[:min(listed, len(known))] {
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(string(name))
	}
	if more := len(known) - listed; more > 0 {
		fmt.Fprintf(&text, " and %d more", more)
	}
	return text.String()
}

// most is how many letters of a name may be others, too many, missing or in each other's place.
const most = 2

// Nearest is the first of the nearest names: half of its letters or more are right, whatever their case, it
// begins with the word, or, which is farther, the word with it. "" for none.
func Nearest[S ~string](mistyped S, known []S) string {
	word := strings.ToLower(string(mistyped))
	best, least := "", most+1
	for _, name := range known {
		lower := strings.ToLower(string(name))
		d := distance(word, lower)
		switch {
		case len(word) < 2:
		case strings.HasPrefix(lower, word):
			d = min(d, 1)
		case strings.HasPrefix(word, lower):
			d = min(d, most)
		}
		if d < least && 2*d <= len(name) {
			best, least = string(name), d
		}
	}
	return best
}

// distance is how many letters are to be changed, put in or left out, or neighbours exchanged, for one
// word to be the other, byte by byte.
func distance(a, b string) int {
	last, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			change := row[j]
			if a[i] != b[j] {
				change++
			}
			next[j+1] = min(change, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], last[j-1]+1)
			}
		}
		last, row, next = row, next, last
	}
	return row[len(b)]
}
