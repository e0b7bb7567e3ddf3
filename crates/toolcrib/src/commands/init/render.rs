//! Templates: `{{name}}` is replaced by a value, and lines between `//#if flag` and `//#end` are kept if the flag is set.

/// Values and flags.
#[derive(Debug, Default)]
pub(super) struct Filling {
    values: Vec<(&'static str, String)>,
    flags: Vec<&'static str>,
}

impl Filling {
    /// Adds a value.
    pub(super) fn value(&mut self, name: &'static str, value: impl Into<String>) -> &mut Self {
        self.values.push((name, value.into()));
        self
    }

    /// Sets a flag if `is_set`.
    pub(super) fn flag(&mut self, name: &'static str, is_set: bool) -> &mut Self {
        if is_set {
            self.flags.push(name);
        }
        self
    }

    /// The text of a template.
    pub(super) fn render(&self, template: &str) -> String {
        let mut out = String::with_capacity(template.len());
        let mut is_kept = true;
        for line in template.lines() {
            if let Some(flag) = line.strip_prefix("//#if ") {
                is_kept = self.flags.contains(&flag);
            } else if line == "//#end" {
                is_kept = true;
            } else if is_kept {
                self.fill(line, &mut out);
                out.push('\n');
            }
        }
        out
    }

    /// A placeholder without a value is kept, so that a test finds it.
    fn fill(&self, line: &str, out: &mut String) {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("{{") {
            out.push_str(before);
            let filled = after.split_once("}}").and_then(|(name, after)| {
                let (_, value) = self.values.iter().find(|(given, _)| *given == name)?;
                Some((value, after))
            });
            match filled {
                Some((value, after)) => {
                    out.push_str(value);
                    rest = after;
                }
                None => {
                    out.push_str("{{");
                    rest = after;
                }
            }
        }
        out.push_str(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_flags() {
        let mut filling = Filling::default();
        filling.value("a", "{{b}}").flag("yes", true).flag("no", false);
        let text = "x{{a}}{{a}}\n//#if yes\nkept\n//#end\n//#if no\ndropped\n//#end\n{{unknown}} {y}\n";
        assert_eq!(filling.render(text), "x{{b}}{{b}}\nkept\n{{unknown}} {y}\n", "values are not filled in again");
    }
}
