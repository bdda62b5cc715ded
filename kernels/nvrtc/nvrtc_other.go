//go:build !unix

package nvrtc

// Compiler is an open library; this system has none.
type Compiler struct {
	Library      string
	Major, Minor int
}

// Find is a *MissingError.
func Find(int) (*Compiler, error) { return nil, &MissingError{Tried: names} }

// Open is a *MissingError.
func Open(library string) (*Compiler, error) { return nil, &MissingError{Tried: []string{library}} }

// Older and Architectures are never called: there is no Compiler.
func (c *Compiler) Older(int) bool       { return false }
func (c *Compiler) Architectures() []int { return nil }

// Compile is never called: there is no Compiler.
func (c *Compiler) Compile(string, []byte, map[string]string, []string, bool) ([]byte, string, error) {
	return nil, "", &MissingError{Tried: names}
}
