package report

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// sealed gives the records of a trace their hashes: a header, then episodes whose scenes
// begin with {"episode":N,"scene" and whose last lines hold their "end".
func sealed(text string) string {
	var out, record strings.Builder
	last := ""
	for line := range strings.Lines(text) {
		if out.Len() > 0 {
			line = strings.Replace(line, `,"scene":`, `,"before_sha256":"`+last+`","scene":`, 1)
		}
		record.WriteString(line)
		if out.Len() > 0 && !strings.Contains(line, `"end":`) {
			continue
		}
		last = fmt.Sprintf("%x", sha256.Sum256([]byte(record.String())))
		header := out.Len() == 0
		out.WriteString(record.String())
		record.Reset()
		if !header {
			var episode int
			fmt.Sscanf(line, `{"episode":%d`, &episode)
			fmt.Fprintf(&out, `{"episode":%d,"sha256":"%s"}`+"\n", episode, last)
		}
	}
	return out.String() + record.String()
}
