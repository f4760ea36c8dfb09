//! Commits on a remote of a repository, for other machines that can reach it too.
//!
//! The user's settings apply as for any push: credential helpers, and the program for ssh. No hook of the repository
//! runs, and only the usual protocols are used, because an address may come from another machine.

use super::command::GitCommand;
use super::{GitError, GitRepository};

/// The protocols that are used, whatever the configuration allows.
const PROTOCOLS: &str = "file:git:http:https:ssh";

impl GitRepository {
    /// The address of a remote, without a password; none if there is no such remote.
    pub async fn remote_url(&self, remote: &str) -> Result<Option<String>, GitError> {
        if remote.starts_with('-') {
            return Ok(None);
        }
        let found = self.query("remote").args(["get-url", remote]).run().await?;
        let url = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        Ok(found.status.success().then(|| without_password(&url)))
    }

    /// Adds a remote.
    pub async fn add_remote(&self, name: &str, url: &str) -> Result<(), GitError> {
        self.query("remote").args(["add", "--", name, url]).run().await?.checked()?;
        Ok(())
    }

    /// Puts a commit with everything it needs under a reference of a remote, in place of what is there.
    pub async fn push_commit(
        &self,
        remote: &str,
        commit: &str,
        reference: &str,
    ) -> Result<(), GitError> {
        let push = self.remote_command("push").args(["--quiet", "--force", "--no-verify"]);
        let push = push.args(["--recurse-submodules=no", "--", remote]);
        push.args([format!("{commit}:{reference}")]).run().await?.checked()?;
        Ok(())
    }

    /// Takes a commit from a reference of a remote, which is named or an address, and puts it under `own`. Fails if the
    /// remote has another commit there.
    pub async fn fetch_commit(
        &self,
        remote: &str,
        reference: &str,
        own: &str,
        commit: &str,
    ) -> Result<(), GitError> {
        let fetch = self.remote_command("fetch").args(["--quiet", "--force", "--no-tags"]);
        let fetch = fetch.args(["--no-write-fetch-head", "--recurse-submodules=no", "--", remote]);
        fetch.args([format!("{reference}:{own}")]).run().await?.checked()?;
        if self.commit_of(own).await?.as_deref() == Some(commit) {
            return Ok(());
        }
        Err(GitError::Refused(format!("`{remote}` has another commit as `{reference}`")))
    }

    fn remote_command(&self, what: &str) -> GitCommand {
        self.query(what).patient().env("GIT_ALLOW_PROTOCOL", PROTOCOLS)
    }
}

/// An address as other machines may see it: a name and a password for HTTP are left out.
fn without_password(url: &str) -> String {
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    let Some((scheme, rest)) = url.split_once("://").filter(|_| is_http) else {
        return url.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or(authority);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn no_password_goes_to_another_machine() {
        for (url, shown) in [
            ("https://ann:secret@host/a.git", "https://host/a.git"),
            ("https://token@host:81", "https://host:81"),
            ("https://host/a@b", "https://host/a@b"),
            ("ssh://git@host/a", "ssh://git@host/a"),
            ("git@host:a.git", "git@host:a.git"),
            ("/srv/a.git", "/srv/a.git"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
