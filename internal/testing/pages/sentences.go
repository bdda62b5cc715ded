package pages

import (
	"regexp"
	"strings"
)

var (
	fenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	code     = regexp.MustCompile("`[^`\n]*`")
	written  = regexp.MustCompile(`(?ms)^<!-- [^\n]*(?:written|printed) by.*?^<!-- end of [^\n]*-->`)
	sentence = regexp.MustCompile(`[.!?](?:[)"*_]*)(?:\s+|$)`)
	item     = regexp.MustCompile(`^\s*(?:[*-]|\d+\.)\s`)
	target   = regexp.MustCompile(`\]\([^)]*\)`)
)

// Sentences are those of a page or comment without headings, tables, code, pictures and generated parts.
func Sentences(page string) (all []string) {
	page = fenced.ReplaceAllString(written.ReplaceAllString(page, ""), "")
	var paragraph []string
	flush := func() {
		text := target.ReplaceAllString(code.ReplaceAllString(strings.Join(paragraph, " "), "code"), "]")
		for _, s := range sentence.Split(text, -1) {
			if strings.TrimSpace(s) != "" {
				all = append(all, s)
			}
		}
		paragraph = nil
	}
	for line := range strings.Lines(page) {
		switch line = strings.TrimRight(line, "\n"); {
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, "|"), strings.HasPrefix(line, "!["), strings.HasPrefix(line, "<"), strings.HasPrefix(line, "    "), strings.HasPrefix(line, "\t"):
			flush()
		case item.MatchString(line):
			flush()
			paragraph = append(paragraph, item.ReplaceAllString(line, ""))
		default:
			paragraph = append(paragraph, line)
		}
	}
	flush()
	return all
}

// Mean is the mean number of words of a sentence.
func Mean(all []string) float64 {
	words := 0
	for _, s := range all {
		words += len(strings.Fields(s))
	}
	return float64(words) / float64(max(1, len(all)))
}
