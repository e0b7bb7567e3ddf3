//! Access control of the settings page, and what it never shows.

use std::fs;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use toolcrib_host::page::{IDLE_SECONDS, Page, PageEnd, PageError};

use crate::page_support::{Browser, PageResponse, Stage, encoded, manifest, send, write_tool};

/// Every page.
const PAGES: [&str; 6] = ["/", "/tools/greeter", "/rules", "/log", "/log?tool=greeter&paused=1", "/checks"];

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_needed_works_once_and_becomes_a_cookie() {
    let stage = Stage::open().await;
    let token = stage.login.strip_prefix("/login?token=").unwrap();
    assert_eq!(token.len(), 64);
    for path in ["/login", "/login?token=", &format!("/login?token={}", "0".repeat(64)), &stage.login[..76], "/", "/other"] {
        let refused = stage.get(path, "").await;
        assert!(matches!(refused.status, 403 | 404), "{path}: {refused:?}");
        assert_eq!(refused.header("set-cookie"), None);
        refused.has(&["toolcrib local settings"]);
    }
    // Automatic requests of a browser do not use up the token.
    let head = format!("HEAD {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", stage.login, stage.address);
    assert_eq!(stage.send(&head).await.status, 403);
    assert_eq!(stage.get(&stage.login, "Sec-Purpose: prefetch;prerender\r\n").await.status, 403);

    let answer = stage.get(&stage.login, "").await;
    assert_eq!(answer.status, 303);
    let location = answer.header("location").unwrap();
    assert!(!location.contains(token) && !location.contains("token"), "{location}");
    let cookie = answer.header("set-cookie").unwrap();
    let base = location.trim_end_matches('/');
    assert!(base.len() == 33 && cookie.ends_with(&format!("; Path={base}; HttpOnly; SameSite=Strict")), "{cookie}");
    assert!(!cookie.contains(token) && cookie.split(';').next().unwrap().len() >= 64, "{cookie}");

    let again = stage.get(&stage.login, "").await;
    assert_eq!((again.status, again.header("set-cookie")), (403, None));
    again.has(&["host.page_session"]);
    // The folder alone does not suffice, and neither does another cookie.
    for headers in ["", "Cookie: toolcrib-settings=\r\n", &format!("Cookie: toolcrib-settings={token}\r\n")] {
        for page in PAGES {
            let refused = stage.get(&format!("{base}{page}"), headers).await;
            assert_eq!(refused.status, 403, "{page}: {refused:?}");
            refused.lacks(&["greeter", "csrf"]);
        }
    }
    assert_eq!(stage.get(location, &format!("Cookie: {}\r\n", cookie.split(';').next().unwrap())).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_loopback_addresses_are_listened_at() {
    let stage = Stage::open().await;
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "127.0.0.2:0", "[::ffff:127.0.0.1]:0"] {
        let refused = Page::bind(stage.host.clone(), address.parse().unwrap()).await;
        assert!(matches!(refused, Err(PageError::Address(_))), "{address}");
    }
    let error = Page::bind(stage.host.clone(), stage.address).await.unwrap_err();
    assert_eq!(error.code().id(), "cli.listen");
    let page = Page::bind(stage.host.clone(), "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let token = page.url().rsplit_once('=').unwrap().1.to_owned();
    assert!(!format!("{page:?}").contains(&token), "tokens are not in logs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_host_is_refused() {
    let stage = Stage::open().await;
    let port = stage.address.port();
    let hosts = [
        "tools.example.com".to_owned(),
        format!("tools.example.com:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port ^ 1),
        format!("localhost.example.com:{port}"),
        format!("127.0.0.1.example.com:{port}"),
        String::new(),
    ];
    for host in &hosts {
        let request = format!("GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", stage.login);
        let refused = stage.send(&request).await;
        assert!(matches!(refused.status, 400 | 403), "{host}: {refused:?}");
        assert_eq!(refused.header("set-cookie"), None);
    }
    let absolute =
        format!("GET http://evil.example{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", stage.login, stage.address);
    assert_eq!(stage.send(&absolute).await.status, 403);
    // The token was not used up, and the cookie does not help either.
    let browser = stage.sign_in().await;
    for host in &hosts {
        let Browser { base, cookie, .. } = &browser;
        let request = format!("GET {base}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n");
        let refused = stage.send(&request).await;
        assert!(matches!(refused.status, 400 | 403), "{host}: {refused:?}");
        refused.lacks(&["greeter", &browser.csrf]);
    }
    for host in [format!("localhost:{port}"), format!("[::1]:{port}")] {
        let Browser { base, cookie, .. } = &browser;
        let request = format!("GET {base}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n");
        assert_eq!(stage.send(&request).await.status, 200, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_of_other_pages_change_nothing() {
    let stage = Stage::open().await;
    let browser = stage.sign_in().await;
    let content = stage.content();
    let before = stage.state();
    let forms = [
        browser.form("disable", &[("tool", "greeter")]),
        browser.form("enable", &[("tool", "greeter")]),
        browser.form("permission", &[("tool", "greeter"), ("content", &content), ("function", "hello"), ("decision", "allow")]),
        browser.form("credential", &[("tool", "greeter"), ("content", &content), ("name", "api_key"), ("value", "x")]),
        browser.form("remove-credential", &[("tool", "greeter"), ("name", "api_key")]),
        browser.form("rebind", &[("tool", "greeter"), ("content", &content)]),
        browser.form("revoke", &[("rule", "1")]),
        browser.form("end", &[]),
    ];
    let other_port = format!("http://127.0.0.1:{}", stage.address.port() ^ 1);
    for form in &forms {
        let whole = form.body.clone();
        let rest = whole.split_once('&').map_or("", |(_, rest)| rest).to_owned();
        let mut forged = vec![
            form.clone().header("Origin", Some("https://evil.example")),
            form.clone().header("Origin", Some(&other_port)),
            form.clone().header("Origin", Some(&format!("https://{}", stage.address))),
            form.clone().header("Origin", Some("null")),
            form.clone().header("Origin", None),
            form.clone().header("Sec-Fetch-Site", Some("cross-site")),
            form.clone().header("Sec-Fetch-Site", Some("same-site")),
            form.clone().header("Sec-Fetch-Site", Some("none")),
            form.clone().header("Cookie", None),
            form.clone().header("Cookie", Some("toolcrib-settings=0000")),
            form.clone().header("Host", Some("evil.example")),
        ];
        for body in [rest.clone(), format!("csrf=&{rest}"), format!("csrf={}&{rest}", "0".repeat(64)), String::new()] {
            forged.push(crate::page_support::Request { body, ..form.clone() });
        }
        for request in forged {
            let refused = request.send(stage.address).await;
            assert_eq!(refused.status, 403, "{} {:?} {}: {refused:?}", request.path, request.headers, request.body);
            refused.lacks(&[&browser.csrf]);
        }
        for (body, headers) in [
            (whole.clone(), form.clone().header("Content-Type", Some("text/plain"))),
            (whole.clone(), form.clone().header("Content-Type", None)),
            (format!("{whole}&csrf={}", browser.csrf), form.clone()),
            (format!("{whole}&x=%zz"), form.clone()),
        ] {
            let request = crate::page_support::Request { body, ..headers };
            assert_eq!(request.send(stage.address).await.status, 400, "{} {}", request.path, request.body);
        }
    }
    assert_eq!(stage.state(), before);
    assert_eq!(browser.get("/").await.status, 200, "the session is not over");
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_changes_nothing() {
    let stage = Stage::open().await;
    let browser = stage.sign_in().await;
    browser.submit("disable", &[("tool", "greeter")]).await;
    let before = stage.state();
    for page in PAGES {
        assert_eq!(browser.get(page).await.status, 200, "{page}");
        assert_eq!(browser.get(&format!("{page}{}done=enabled", if page.contains('?') { '&' } else { '?' })).await.status, 200);
    }
    let query = format!("csrf={}&tool=greeter&rule=1&content={}&function=hello&decision=allow", browser.csrf, stage.content());
    for action in ["enable", "disable", "permission", "credential", "remove-credential", "rebind", "revoke", "end"] {
        assert_eq!(browser.get(&format!("/change/{action}?{query}")).await.status, 405, "{action}");
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        let Browser { base, cookie, .. } = &browser;
        let request = format!(
            "{method} {base}/change/enable HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n",
            stage.address
        );
        let refused = stage.send(&request).await;
        assert_eq!(refused.status, 405, "{method}: {refused:?}");
        assert_eq!(refused.header("access-control-allow-origin"), None);
    }
    assert_eq!(stage.state(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_forms_are_not_read() {
    let stage = Stage::open().await;
    let browser = stage.sign_in().await;
    let content = stage.content();
    let before = stage.state();
    let mut form = browser.form("credential", &[("tool", "greeter"), ("content", &content), ("name", "api_key")]);
    let head = |length: &str| {
        let lines: String = form.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("POST {} HTTP/1.1\r\nConnection: close\r\n{lines}{length}\r\n\r\n", form.path)
    };
    let limit = 3 * 65_536 + 4_096;
    let announced = stage.send(&head(&format!("Content-Length: {}", limit + 1))).await;
    assert_eq!(announced.status, 413, "{announced:?}");
    announced.has(&["host.page_form"]);
    let chunk = "x".repeat(limit + 1);
    let chunked = format!("{}{:x}\r\n{chunk}\r\n0\r\n\r\n", head("Transfer-Encoding: chunked"), chunk.len());
    assert_eq!(send(stage.address, chunked.as_bytes()).await.status, 413);
    // The largest credential fits, whatever its characters; the store refuses one more byte.
    form.body += &format!("&value={}", encoded(&"ä".repeat(32_769)));
    let refused = form.send(stage.address).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    refused.has(&["secret.value"]);
    assert_eq!(stage.state(), before);
    let largest = "ä".repeat(32_768);
    browser.submit("credential", &[("tool", "greeter"), ("content", &content), ("name", "api_key"), ("value", &largest)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_the_headers_that_keep_other_pages_out() {
    let stage = Stage::open().await;
    let mut answers = vec![
        stage.get("/", "").await,
        stage.get("/style.css", "").await,
        stage.get("/login?token=x", "").await,
        stage.send(&format!("GET / HTTP/1.1\r\nHost: evil.example:{}\r\nConnection: close\r\n\r\n", stage.address.port())).await,
    ];
    answers.push(stage.get(&stage.login, "").await);
    let location = answers[4].header("location").unwrap().to_owned();
    let cookie = answers[4].header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    for page in ["", "tools/greeter", "log", "tools/none", "change/enable"] {
        answers.push(stage.get(&format!("{location}{page}"), &format!("Cookie: {cookie}\r\n")).await);
    }
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [404, 200, 403, 403, 303, 200, 200, 200, 404, 405]);
    for answer in &answers {
        let policy = answer.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "style-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"]
        {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("script-src"), "{policy}");
        for (name, value) in [
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{answer:?}");
        }
        assert_eq!(answer.header("access-control-allow-origin"), None);
        answer.lacks(&["<script", "style=", "onclick"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_authors_stays_text() {
    let script = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>";
    let (bidi, turned) = ("safe\u{202e}exe.txt", "safe\u{202e}exe.txt\u{2066}\u{200b}\u{7}");
    let fill = |tools: &std::path::Path| {
        let function = |name: &str, text: &str| json!({"name": name, "description": text, "parameters": {"type": "object"}});
        let hostile = |text: &str| {
            json!({
                "name": text, "description": text, "functions": [function("hello", text)],
                "credentials": [{"name": "api_key", "label": text, "description": text, "required": true}],
                "sandbox": {"read": [format!("/{}", text.replace(['<', '/', '\u{7}'], ""))]},
            })
        };
        write_tool(tools, "greeter", &manifest("greeter", hostile(script)));
        write_tool(tools, "turned", &manifest("turned", hostile(turned)));
        write_tool(tools, "turned2", &manifest("turned2", hostile(bidi)));
        let folder = tools.join(format!("{}{turned}", script.replace('/', "")));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("manifest.json"), json!({"id": script, "name": turned, "<b>": script}).to_string()).unwrap();
    };
    let stage = Stage::with(fill, None).await;
    let browser = stage.sign_in().await;
    let content = stage.content();
    let fields = [("tool", "greeter"), ("content", &content), ("name", "api_key"), ("value", "v")];
    browser.submit("credential", &fields).await;
    stage.change(
        "manifest.json",
        &manifest("greeter", json!({"name": script, "version": "2.0.0", "description": bidi})).to_string(),
    );
    let mut pages = Vec::new();
    for page in PAGES.into_iter().chain(["/tools/turned2", "/log?tool=%3Cscript%3E%E2%80%AE", "/?done=%3Cscript%3E"]) {
        pages.push(browser.get(page).await);
    }
    pages.push(browser.form("disable", &[("tool", script)]).send(stage.address).await);
    pages.push(browser.form("revoke", &[("rule", &format!("{script}{turned}"))]).send(stage.address).await);
    pages.push(
        browser
            .form("permission", &[("tool", "greeter"), ("content", &stage.content()), ("function", script), ("decision", "deny")])
            .send(stage.address)
            .await,
    );
    for page in &pages {
        page.lacks(&["<script", "<img", "<b>", "\u{202e}", "\u{2066}", "\u{200b}", "\u{7}"]);
    }
    pages[0].has(&["&lt;script&gt;alert(1)&lt;/script&gt;&quot;", "\\u{202e}"]);
    pages[1].has(&["The tool changed", "&lt;script&gt;alert(1)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_value_is_never_sent_back() {
    let stage = Stage::open().await;
    let browser = stage.sign_in().await;
    let (secret, second) = ("hunter2-and-more-0123456789", "correct horse battery staple & <more>");
    let set = async |content: String, value: &str| {
        let fields = [("tool", "greeter"), ("content", content.as_str()), ("name", "api_key"), ("value", value)];
        browser.form("credential", &fields).send(stage.address).await
    };
    let mut answers: Vec<PageResponse> = vec![set(stage.content(), secret).await];
    assert_eq!(answers[0].status, 303);
    answers.push(set(stage.content(), second).await);
    // A rejected form is not echoed either.
    answers.push(set("sha256:00".to_owned(), secret).await);
    answers.push(browser.form("credential", &[("tool", "greeter"), ("value", secret)]).send(stage.address).await);
    stage.change("main.py", "changed = True\n");
    for page in PAGES {
        answers.push(browser.get(page).await);
    }
    answers.push(browser.form("rebind", &[("tool", "greeter"), ("content", &stage.content())]).send(stage.address).await);
    for page in PAGES {
        answers.push(browser.get(page).await);
    }
    let escaped = "correct horse battery staple";
    for answer in &answers {
        answer.lacks(&[secret, escaped, &encoded(second)]);
    }
    let state = stage.place.path().join("state");
    for file in ["secrets.json", "audit.jsonl", "permissions.json"] {
        let text = fs::read_to_string(state.join(file)).unwrap_or_default();
        assert!(!text.contains(secret) && !text.contains(escaped), "{file}");
    }
    let log = fs::read_to_string(state.join("audit.jsonl")).unwrap();
    for token in [&stage.login[13..], &browser.csrf, browser.cookie.split('=').nth(1).unwrap()] {
        assert!(token.len() == 64 && !log.contains(token), "tokens are not in logs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_without_use_and_the_page_with_it() {
    let stage = Stage::open().await;
    let browser = stage.sign_in().await;
    for _ in 0..2 {
        stage.clock.advance(IDLE_SECONDS - 1);
        assert_eq!(browser.get("/").await.status, 200, "each use counts");
    }
    // The automatic reload of the log does not extend the session.
    stage.clock.advance(IDLE_SECONDS - 1);
    assert_eq!(browser.get("/log?auto=1").await.status, 200);
    stage.clock.advance(1);
    let refused = browser.get("/log?auto=1").await;
    assert_eq!(refused.status, 403);
    refused.has(&["host.page_session"]);
    let end = timeout(Duration::from_secs(30), stage.serving).await.unwrap().unwrap();
    assert_eq!(end, PageEnd::SessionOver);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_ends_the_session() {
    let stage = Stage::open().await;
    let browser = stage.sign_in().await;
    let closed = browser.form("end", &[]).send(stage.address).await;
    assert_eq!(closed.status, 200);
    closed.has(&["Closed"]);
    let end = timeout(Duration::from_secs(30), stage.serving).await.unwrap().unwrap();
    assert_eq!(end, PageEnd::SessionOver);
    assert!(tokio::net::TcpStream::connect(stage.address).await.is_err(), "nothing listens any more");
}
