package multiagent

import "github.com/gpc-engine/gpc/domain"

func controllers(y *System) map[string]func() (domain.Controller, error) {
	return map[string]func() (domain.Controller, error){}
}
