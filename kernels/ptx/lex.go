package ptx

import (
	"fmt"
	"strings"
)

// largest bounds the numbers of bytes, elements and registers that a text declares.
const largest = 1 << 24

// SyntaxError says where a text is not PTX of the subset that the package executes.
type SyntaxError struct {
	File string
	Line int
	What string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.What) }

// token is a word, number, string or sign of the text.
type token struct {
	text string
	line int
}

// lex splits a text into tokens, without comments.
func lex(text string) []token {
	tokens := make([]token, 0, len(text)/4)
	line := 1
	word := func(c byte) bool {
		return c == '_' || c == '$' || c == '%' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == 0:
			return tokens
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(text[i:], "//"):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case strings.HasPrefix(text[i:], "/*"):
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return tokens
			}
			line += strings.Count(text[i:i+2+end], "\n")
			i += end + 4
		case c == '"':
			end := strings.IndexByte(text[i+1:], '"')
			if end < 0 {
				return append(tokens, token{text[i:], line})
			}
			tokens = append(tokens, token{text[i : i+end+2], line})
			i += end + 2
		case word(c):
			j := i + 1
			for j < len(text) && (word(text[j]) || text[j] == ':' && j+2 < len(text) && text[j+1] == ':') {
				if text[j] == ':' {
					j++
				}
				j++
			}
			tokens = append(tokens, token{text[i:j], line})
			i = j
		default:
			tokens = append(tokens, token{text[i : i+1], line})
			i++
		}
	}
	return tokens
}
