package draw

import (
	"fmt"
	"image/color"
	"maps"
	"slices"
	"strings"
)

// tint is a colour on light paper, in which figures are drawn, and its twin on dark paper.
type tint struct{ light, dark color.RGBA }

func rgb(v uint32) color.RGBA { return color.RGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 255} }

// tints is the one table of colours of all drawings, animations and pages. The first six are --c0 to --c5 of the live
// page, after Okabe and Ito's, which all common kinds of colour vision tell apart.
var tints = []tint{
	{rgb(0x0072b2), rgb(0x56b4e9)}, {rgb(0xb87300), rgb(0xe69f00)}, {rgb(0x00835f), rgb(0x35c19a)}, {rgb(0xa9558a), rgb(0xd68fbd)},
	{rgb(0x8a7d00), rgb(0xf0e442)}, {rgb(0xc94a1c), rgb(0xff7a59)}, {rgb(0x6b747d), rgb(0x9aa6b2)}, {rgb(0x86562c), rgb(0xcda577)},
}

// Places in tints of what is no series of its own.
const (
	Grey  = 6 // exact methods, obstacles, ground
	Brown = 7 // learned policies, and every method without a place of its own
)

// What is drawn besides: the background, words and axes, grid, and a limit.
var (
	background = tint{rgb(0xffffff), rgb(0x15191e)}
	ink        = tint{rgb(0x1b222a), rgb(0xe4e8ec)}
	lines      = tint{rgb(0xe6e6e6), rgb(0x2c343c)}
	bound      = tint{rgb(0xc23b10), rgb(0xff8f70)}
)

// Colours of a limit, and of words and axes.
var (
	Limit = bound.light
	Ink   = ink.light
)

// Colour is the i-th of the table.
func Colour(i int) color.RGBA { return tints[i%len(tints)].light }

// towards mixes two parts of a background into a colour.
func towards(c, white color.RGBA) color.RGBA {
	mix := func(v, p uint8) uint8 { return uint8((int(v) + 2*int(p)) / 3) }
	return color.RGBA{mix(c.R, white.R), mix(c.G, white.G), mix(c.B, white.B), 255}
}

// Faint is a colour as it is where it is pale.
func Faint(c color.RGBA) color.RGBA { return towards(c, background.light) }

// translucent is a colour through which others are seen, a fifth of it. Drawings name it as the whole colour: its parts
// are rounded up, as they round down.
type translucent color.RGBA

// RGBA implements color.Color.
func (c translucent) RGBA() (r, g, b, a uint32) {
	const share = 0xffff / 5
	part := func(v uint8) uint32 { return (uint32(v)*share + 254) / 255 }
	return part(c.R), part(c.G), part(c.B), share
}

func css(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

// twins are the dark colours of all that is drawn, by the light ones.
var twins = func() map[string]string {
	all := map[string]string{}
	for _, t := range append([]tint{background, ink, lines, bound}, tints...) {
		all[css(t.light)] = css(t.dark)
		if t != background && t != lines {
			all[css(Faint(t.light))] = css(towards(t.dark, background.dark))
		}
	}
	return all
}()

// PageStyle are the variables --ink and --paper of a page, and the rules that give all drawings in it the colours of dark
// paper; what stands between is put between them.
func PageStyle(between string) string {
	var all strings.Builder
	for light := range twins {
		fmt.Fprintf(&all, "fill:%s stroke:%s ", light, light)
	}
	return fmt.Sprintf(":root{color-scheme:light dark;--ink:%s;--paper:%s}\n@media(prefers-color-scheme:dark){:root{--ink:%s;--paper:%s}}\n%s\n%s",
		css(ink.light), css(background.light), css(ink.dark), css(background.dark), between, darkened(all.String(), "svg "))
}

// darkened are the rules that give a drawing, inside of what selects it, the colours of dark paper.
func darkened(svg, within string) string {
	var b strings.Builder
	for _, light := range slices.Sorted(maps.Keys(twins)) {
		if !strings.Contains(svg, light) {
			continue
		}
		for _, property := range []string{"fill", "stroke"} {
			if used := property + ":" + light; strings.Contains(svg, used) {
				fmt.Fprintf(&b, "%s[style*=%q]{%s:%s!important}", within, used, property, twins[light])
			}
		}
	}
	return "@media(prefers-color-scheme:dark){" + b.String() + "}"
}

// Body is the colour of a body or robot.
func Body(of int) color.RGBA {
	if of %= len(tints) - 1; of >= Grey {
		of++
	}
	return Colour(of)
}
